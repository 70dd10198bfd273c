"""The part of speech of each word of a caption: noun, verb, adjective or other.

A tagger of our own for captions, whose English is small: who, how they look, what they do, to what, where. Lists of
words with few meanings (closed classes, adjectives, verbs), forms of verbs made by rule, and for words that can be
two things (`plays`, `dance`, `a painting`, `is painting`) what stands before and after them. A word that no list and
no ending covers is a noun: names and things are the open class of captions. No model, no download, no Java. Its
accuracy on captions tagged by hand is in docs/papers/global2local.md.

Conventions, where grammars differ: forms of *be* and modals, numbers, pronouns, adverbs and prepositions are `other`;
*have* and *do* are verbs unless they help another verb; a participle before a noun is an adjective (`a sliced
onion`), otherwise a verb (`is shown`, `a man dressed in`, `after slicing`); an activity before a noun is a noun (`a
cooking show`).
"""

from collections.abc import Sequence
from typing import Literal

BE = frozenset("'m 're am are aren be been being is isn was wasn were".split())
MODALS = frozenset("'ll ca can cannot could may might must shall should will wo would".split())
HAVE_AND_DO = frozenset("'ve did do does had has have".split())  # verbs of their own unless they help another
DETERMINERS = frozenset(  # a noun must follow, sooner or later
    """'s a all an another any both dozen each eight every few first five four her his hundred its many more most my
    nine no one our second seven several six some ten that the their these third this those thousand three two
    whose your""".split()
)
PREPOSITIONS = frozenset(
    """about above across after against along alongside among around as at before behind below beneath beside between
    by down during for from in infront inside into like near of off on onto out outside over past through
    throughout to toward towards under underneath up upon versus via vs with within without""".split()
)
CLAUSE_OPENERS = frozenset(  # after these a verb is expected again
    """after and as because before but if or so that then when where which while who whose""".split()
)
PLURAL_SUBJECTS = frozenset("children everyone guys i kids men people that they we which who women you".split())
SINGULAR_SUBJECTS = frozenset("everybody everyone he it nobody she somebody someone that which who".split())
ADVERBS = frozenset(  # and pronouns, particles: all that is neither noun, verb nor adjective
    """again ahead almost already also although always anyone anything anywhere apart aside away back backward
    backwards eachother either else etc even ever everything everywhere fast forth forward forwards hard hello
    here herself hey hi him himself how i indoors itself just late later maybe me much myself n't neither never
    none not nothing now often oh ok okay once only other others outdoors perhaps please quite rather really s
    same since something sometimes somewhere soon still such t than them themselves there they though till
    together too twice until upside us very we well what whether why yes yet you yourself""".split()
)
ADJECTIVES = frozenset(
    """able acoustic active additional adult afraid african aged aggressive alive alone amazing american ancient
    angry animated antique arabic asian asleep athletic attractive automatic available awake awesome awful awkward
    back bad baked bald bare barefoot bearded beautiful best better big bigger bitter black blind blond blonde
    bloody blue blurry boiled boring bottom brave brief bright british broken brown brunette bushy busy calm
    casual celtic central certain charming cheap cheerful chinese christian circular classic classical clean clear
    clever close closed cloudy cold colorful colourful comedic comic common competitive complex confused cooked
    cool correct costumed crazy creamy crispy crowded curious curly current curved cute dangerous dark dazzling
    dead deaf deep delicious different difficult digital dirty domestic double dramatic drunk dry dusty early
    eastern easy educational elderly electric electrical electronic elegant empty energetic english enormous
    entertaining entire epic european evil excited exciting exotic expensive extra facial fake false famous fancy
    fat favorite female few final fine flat floral fluffy foggy foreign formal free french fresh fried friendly
    front frozen full funny furry futuristic gay gentle german giant gigantic global glossy golden good gorgeous
    gory gothic grand grassy gray great green green-eyed grey growing haired hairy half handsome happy haunted
    heated heavy high hilarious hip hispanic historical hollow hooded horrible hot huge human hungry important
    indian indoor informational injured inner instructional intelligent intense interesting international irish
    islamic italian japanese jewish juicy korean large larger last late latest lazy left light lined liquid lit
    little live lively local lonely long longer loose loud lovely low lower lunar main male manual married martial
    masked massive mean mechanical medical medieval medium messy metallic mexican middle middle-aged military mini
    miniature mobile modern mortal moving muddy multiple muscular musical muslim naked narrow nasty national
    natural nearby neat nervous new next nice noisy normal nuclear nude numerous obese odd old older olympic
    online opaque open orange outdoor outer outgoing oval overweight own pale particular perfect pink plaid
    plastic playful polar polish political poor popular pregnant presidential pretty private professional proper
    proud public purple quick quiet rainy random rapid rare raw ready real recent red regular relaxing religious
    remaining rich right rocky romantic rough round royal rude rural russian sad safe salty sandy scared scary
    scientific serious sexy shallow shaped sharp shiny shirtless short shorter shy sick silent silly silver
    similar simple single skinny sleepy slim slow small smaller smart smooth snowy social soft solar solid sour
    spanish sparkly special specific spicy spooky sporty square stormy straight strange striped strong stuck
    stuffed stylish suitable sunny super superb sweet talented tall taller tan tasty teenage terrible thick thin
    thirsty tidy tight tiny tired top topless tragic transparent tricky tropical true ugly underwater unexpected
    unidentified uniformed unique unknown unusual upcoming upper upset upside-down urban usual various verbal
    veteran vintage violent virtual vivid warm wavy weak wealthy weird western wet white whole wide wild windy
    wooden worried worse worst yellow young younger""".split()
)
NOUNS_TOO = frozenset(  # adjectives that are the noun itself where no noun follows: a blonde, the middle
    """adult african american asian back blonde bottom british brunette chinese classic comic dark english female
    french front german giant half human indian italian japanese korean left light liquid live male middle
    military old orange own plastic public right round russian silver spanish special square top
    veteran young""".split()
)
NOT_ADJECTIVES = frozenset(  # though they end like one
    """animal bible cable cheese chinese commercial editorial handful individual japanese like manual material
    memorial mouthful official potable professional ritual serial special spoonful table tables trial tutorial
    vegetable vegetables visual""".split()
)
VERBS = frozenset(  # bases
    """accelerate accept accompany achieve add address adjust admire advertise agree aim allow alter announce answer
    apologize appear applaud apply approach argue arrange arrest arrive ask assemble attach attempt attend bake
    balance ban bark bathe batter beat become beg begin behave believe bend bite bleed blend bless blink block
    blow boil bounce bow break breathe brew bring browse brush build burn bury butter buy buzz call caress carry
    carve cast catch cater cause celebrate challenge change charge chase chat check cheer chew choose chop circle
    clap clean clear climb close coach coat collapse collect color comb combine come command comment commentate
    communicate compare compete compile complain compose conduct confront connect consist construct contain
    continue control converse convert cook cope copy correct count cover crack crash crawl create cross cruise
    crush cry cuddle cure cut cycle dance deal debate decide decorate defeat defend deliver demonstrate depict
    describe design destroy detail determine develop diagnose dice die differ dig dip direct disappear discover
    discuss display distribute disturb dive divide download drag drain drape draw dress dribble drift drill drink
    drive drizzle drop drown drum dry dump dunk eat edit educate eliminate embarrass embrace emerge encounter
    encourage engage enjoy enter entertain erase escape evolve examine exchange excite exercise exhale exist exit
    expand explain explode explore express fail fall fasten feature feed feel fight file fill film find finish
    fire fish fix flap flash flatten flee flip flirt float flow fly fold follow force form fry gain gallop gather
    gaze get give glide go grab grate graze greet grill grin grind grip groom grow growl guide hammer handle hang
    happen harass harvest hear help hesitate hide highlight hike hit hold hop host hover hug hunt hurt ignore
    imitate impress improve include indicate inform inject injure insert inspect install instruct interact
    interview introduce invite involve iron jog join joke judge jump keep kick kill kiss knead kneel knit knock
    know land lap laugh launch lay lead lean leap learn leave lecture let lick lie lift light list listen live
    load lock look lose love lower make manage march marinate massage matter measure meditate meet melt mention
    meow mince mix moan mock model move mow nail narrate navigate nibble nod note notice observe occur offend
    offer open operate order organize own pack paddle paint park part participate pass pat paw pedal peek peel
    perform pet photograph pick pile pitch place plan plant play plow pluck point poke polish pop portray pose
    pour power practice pray preform prepare present press pretend prevent proceed produce program promote protect
    protest prove provide pull pump punch punish purchase push put question race raise rap reach react read reason
    receive recite record recount recover reenact refer reflect refuse rehearse relate relax release remember
    remove repair repeat replace report rescue rest reveal review ride ring rinse roam roast rock roll romance
    rotate row rub ruin run rush sail salute saute save say scare scold scoop score scramble scrape scratch scream
    scroll scrub search season seat see seem select sell send separate serve set sew shake shape share sharpen
    shave shift shine ship shoot shop shout show showcase shred shuffle sign simmer sing sit skate skateboard ski
    skip slam slap sleep slice slide slip smash smell smile smoke snap sneak sneeze sniff snore snowboard soak
    soar solve sound spank spar speak speed spill spin spit splash split spray spread sprinkle sprint squat
    squeeze squirt stab stack stage stalk stand stare start stay steal steam steer step stick stir stitch stop
    strap stretch strike stroke stroll struggle strum study stuff stumble style subscribe suck suggest support
    surf surprise surround swallow sway sweep swim swing swipe switch tackle take talk tap taste tattoo teach tear
    tease tell test text thank think throw tickle tie toast top toss touch tour track trade train transform
    translate travel treat trick trim trip try tune turn twirl twist type unbox understand unload unroll unwrap
    urinate use vacuum value videotape view visit volley vomit wade wag wait wake walk wander want warn wash watch
    water wave wear weave weep weld whack whip whisk whisper whistle win wink wipe wish wonder work worry worship
    wrap wrestle write yawn yell zoom""".split()
)
ALSO_NOUNS = frozenset(  # of these verbs the base and the form in -s may as well be nouns: the context decides
    """address aim answer attempt balance ban bark batter beat bend bite blend block blow bow break brush burn butter
    buzz call cast catch cause challenge change charge chase chat check cheer circle clap climb close coach coat
    color comb command comment control cook copy count cover crack crash crawl cross cruise cry cure cut cycle
    dance deal debate design detail dip display dive drape dress drill drink drive drop drum dump dunk exchange
    exercise exit fall feature feed fight file film find fire fish fix flash flip float flow fly fold force form
    fry grill grin guide hammer handle help highlight hike hit hold hop host hug hunt interview iron joke judge
    jump kick kill kiss land lap laugh launch lead leap lecture lick lift light list load lock look love march
    massage matter measure mix model move nail note offer order pack paddle paint park part pass pat paw pedal
    peel pet photograph pick pile pitch place plan plant play plow point polish pop pose power practice present
    press program protest pull pump punch purchase push question race rap reason record release repair report
    rescue rest review ride ring roast rock roll romance row rub run rush sail salute scare scoop score scratch
    scream scroll search season seat set shake shape share shave shift shine ship shoot shop shout show showcase
    sign skate skateboard ski slam sleep slice slide slip smash smell smile smoke snap snowboard sound spar speed
    spill spin splash split spray spread sprinkle sprint stack stage stand stare start stay steam step stick stir
    stitch stop strap stretch strike stroke stroll study stuff style support surf surprise swim swing switch
    tackle talk tap taste tattoo tear tease test text tickle tie toast top toss touch tour track trade train
    travel treat trick trim trip try tune turn twirl twist type use vacuum value view visit volley wait walk wash
    watch water wave whip whisk whisper whistle wink wish wonder work worry wrap zoom""".split()
)
IRREGULAR_PAST = frozenset(
    """ate beaten became began bent bit bitten blew blown bought bound broke broken brought built burnt came caught
    chose come crept cut did done dove drank drawn drew driven drove dug eaten fallen fed fell felt flew flown
    forgotten fought found froze gave given gone got gotten grew grown heard held hid hidden hit hurt kept knew
    known laid led left lent let lost made meant met paid put ran rang read ridden risen rode rose run said sang
    sat saw seen sent set sewn shaken shone shook shot shown shut slept slid sold spent split spoke spoken spread
    spun stole stolen stood stuck sung sunk swam swept swung taken taught thought threw thrown told took tore torn
    went woke woken won wore worn written wrote""".split()
)
BARE_PAST = frozenset(  # past forms that are other words as well
    """bit bound felt found ground led left read rose saw set shot spoke""".split()
)
ING_NOUNS = frozenset(  # things, not actions
    """awning bedding building buildings ceiling clothing duckling dwelling earring engineering evening filling
    flooring frosting icing king lightning lining morning plumbing pudding railing ring seasoning shilling sibling
    sling spring sting stocking string swing thing topping viking wedding wing""".split()
)
ACTIVITIES = frozenset(  # before a noun they name what it is for: a cooking show, the shopping mall
    """acting advertising baking banking boating bowling boxing building camping chopping climbing cooking cutting
    dancing dining diving drawing dressing drinking driving eating fighting fishing frying gaming gardening hiking
    hunting jogging judging living marketing measuring meeting mixing modeling opening painting parking racing
    reading recording riding rolling running sailing sewing shooting shopping singing sitting skating skiing
    sleeping sparring surfing swimming training vending voting waiting walking washing wedding wheeling wrestling
    writing""".split()
)
LY_WORDS = frozenset(  # words in -ly that are no adverbs
    """ally assembly belly bodily bully butterfly family fly italy jelly lily monopoly rally""".split()
)
PERSONS = frozenset(  # who acts, in captions: a man talk about
    """actor actress anchor animal baby band bird boy cat chef child couple dancer dog gentleman girl group guy horse
    host judge kid lady man monkey person player reporter singer somebody someone teacher team woman""".split()
)
IRREGULAR_PLURALS = frozenset("boys cats children dogs girls guys kids ladies men people persons women".split())
NOT_PLURALS = frozenset(  # though they end in s
    """boss bus christmas class dress gas glass gymnastics lens news politics tennis""".split()
)
FUNCTION_WORDS = BE | MODALS | DETERMINERS | PREPOSITIONS | CLAUSE_OPENERS | SINGULAR_SUBJECTS | ADVERBS


# --- the tagger ------------------------------------------------------------------------------------------------------


Part = Literal["noun", "verb", "adjective", "other"]

HELPERS = MODALS | {"n't", "not", "do", "does", "did", "let", "lets", "help", "helps"}  # then the base of a verb
ADJECTIVE_ENDINGS = ("ful", "ous", "less", "able", "ible", "ical", "ional", "ial", "ual", "ese", "like")


def parts_of_speech(tokens: Sequence[str]) -> list[Part]:
    """One part for each token of a tokenised caption."""
    words = [token.lower() for token in tokens]
    parts: list[Part] = []
    clause_has_verb = False
    for place, word in enumerate(words):
        if word in CLAUSE_OPENERS:
            clause_has_verb = False
        part = _part(words, parts, place, clause_has_verb)
        if (part == "verb" and not word.endswith("ing")) or word in BE:
            clause_has_verb = True
        parts.append(part)
    return parts


def _part(words: list[str], parts: list[Part], place: int, clause_has_verb: bool) -> Part:
    word, before, after = words[place], _before(words, place), words[place + 1] if place + 1 < len(words) else ""
    if word in HAVE_AND_DO:
        helps = after in FUNCTION_WORDS - DETERMINERS - PREPOSITIONS or is_participle(after) or base_of(after) == after
        return "other" if helps and not (word != "do" and after in DETERMINERS) else "verb"
    if word == "like" and (before in {"to", "would", "i", "they", "n't"} | PLURAL_SUBJECTS):
        return "verb"
    if word == "next" and after == "to":
        return "other"
    if word == "back" and before in DETERMINERS:
        return "noun"
    if word in {"other", "same", "fast", "hard", "past", "late"} and before != "each" and _may_be_thing(after):
        return "adjective"
    if word in FUNCTION_WORDS or not any(letter.isalpha() for letter in word) or word.startswith("'"):
        return "other"
    if "-" in word.strip("-"):
        last = word.rpartition("-")[2]
        return "adjective" if last in ADJECTIVES or is_participle(last) or last == "haired" else "noun"
    in_phrase = before in DETERMINERS or (place > 0 and parts[-1] == "adjective")  # something must still be named
    follows_be = before in BE
    follows_noun = place > 0 and parts[-1] == "noun"
    thing_follows = _may_be_thing(after)
    if is_adjective(word) and not (word.endswith("ing") and follows_be):
        if word in VERBS and (before == "to" or (not in_phrase and (after in DETERMINERS) and not follows_be)):
            return "verb"
        if is_participle(word) and after in DETERMINERS and not in_phrase:
            return "verb"  # cooked the greens
        if word in NOUNS_TOO and in_phrase and after.endswith("ing") and after not in ACTIVITIES | ING_NOUNS:
            return "noun"  # a male applying
        if thing_follows and not (word in NOUNS_TOO and base_of(after) and not in_phrase):
            return "adjective"
        if word in NOUNS_TOO and (in_phrase or before in PREPOSITIONS) and word not in {"young", "old"}:
            return "noun"
        return "adjective"
    if word.endswith("ly") and word not in LY_WORDS:
        return "other"
    if word.endswith("ing") and len(word) > 4:
        return _part_of_ing(word, before, after, in_phrase, thing_follows)
    if is_participle(word) and base_of(word) != word:
        if word in BARE_PAST and in_phrase:
            return "noun"
        if (in_phrase or before in PREPOSITIONS | {""}) and thing_follows and word not in {"made", "used"}:
            return "adjective"
        return "noun" if in_phrase and word.endswith("ed") and not follows_noun and len(word) < 5 else "verb"
    base = base_of(word)
    if base is None:
        return "verb" if before == "to" and after in DETERMINERS else "noun"
    if base == word:
        return _part_of_base(words, parts, place, in_phrase, clause_has_verb)
    return _part_of_s_form(words, parts, place, base, in_phrase, clause_has_verb)


def _part_of_ing(word: str, before: str, after: str, in_phrase: bool, thing_follows: bool) -> Part:
    if word in ING_NOUNS and before not in BE:
        return "noun"
    if in_phrase:
        if not thing_follows:
            return "noun"  # the recording of
        return "noun" if word in ACTIVITIES else "adjective"
    if before in PREPOSITIONS and thing_follows and word in ACTIVITIES and before not in {"of", "about", "for", "by"}:
        return "noun"  # at shopping mall
    return "verb"


def _part_of_base(words: list[str], parts: list[Part], place: int, in_phrase: bool, clause_has_verb: bool) -> Part:
    word, before, after = words[place], _before(words, place), words[place + 1] if place + 1 < len(words) else ""
    earlier = words[place - 2] if place > 1 else ""
    if before == "to":  # next to water, listening to talk: there `to` leads to a thing
        to_a_thing = earlier in {"next", "close"} or base_of(earlier) in {"listen", "dance", "sing"}
        return "noun" if word in ALSO_NOUNS and to_a_thing else "verb"
    if before in HELPERS or (before in HAVE_AND_DO and word in IRREGULAR_PAST):
        return "verb"
    if in_phrase:
        return "noun"
    if word not in ALSO_NOUNS:
        return "verb"
    last = parts[-1] if parts else "other"
    if before in {"i", "you", "we", "they"}:
        return "verb"
    plural = before in IRREGULAR_PLURALS or (last == "noun" and before.endswith("s") and before not in NOT_PLURALS)
    if not clause_has_verb and (plural or before in PLURAL_SUBJECTS) and after not in BE:
        return "verb"  # people dance
    if not clause_has_verb and before in PERSONS and _opens_object(after):
        return "verb"  # a man talk about
    if before in {"and", "or"} and place > 1 and parts[place - 2] == "verb" and base_of(earlier) == earlier:
        return "verb"  # sing and dance
    return "noun"


def _part_of_s_form(
    words: list[str], parts: list[Part], place: int, base: str, in_phrase: bool, clause_has_verb: bool
) -> Part:
    before, after = _before(words, place), words[place + 1] if place + 1 < len(words) else ""
    if base not in ALSO_NOUNS:
        return "noun" if before in DETERMINERS else "verb"
    if in_phrase or before in PREPOSITIONS:
        return "noun"
    verb_follows = after.endswith("s") and base_of(after) not in (None, after) and base_of(after) not in ALSO_NOUNS
    if after in BE or verb_follows:
        return "noun"  # tv shows are
    last = parts[-1] if parts else "other"
    if not clause_has_verb and (last == "noun" or before in SINGULAR_SUBJECTS):
        plural = before in IRREGULAR_PLURALS
        return "noun" if plural and not _opens_object(after) else "verb"
    if before in {"and", "or", "then", ","} and place > 1:
        spoke = any(part == "verb" for part in parts)
        return "verb" if parts[place - 2] == "verb" or (spoke and _opens_object(after) and after != "of") else "noun"
    return "noun"


def _before(words: list[str], place: int) -> str:
    """The word before, adverbs in -ly and the like passed over."""
    place -= 1
    while place >= 0 and (
        (words[place].endswith("ly") and words[place] not in LY_WORDS | ADJECTIVES)
        or words[place] in {"also", "just", "still", "then", "now", "together", "always", "slowly", "not"}
    ):
        place -= 1
    return words[place] if place >= 0 else ""


def _may_be_thing(word: str) -> bool:
    """Whether a noun phrase may go on with this word."""
    return (
        bool(word)
        and word not in FUNCTION_WORDS | HAVE_AND_DO
        and word[0].isalpha()
        and not (word.endswith("ly") and word not in LY_WORDS | ADJECTIVES)
    )


def _opens_object(word: str) -> bool:
    """Whether this may come straight after a verb: a determiner, a preposition, a particle, the end."""
    return not word or (word != "of" and word in DETERMINERS | PREPOSITIONS | FUNCTION_WORDS - BE)


def is_adjective(word: str) -> bool:
    """By the list, or by an ending that only adjectives have."""
    return word in ADJECTIVES or (word.endswith(ADJECTIVE_ENDINGS) and word not in NOT_ADJECTIVES and len(word) > 5)


def is_participle(word: str) -> bool:
    """A past form: sliced, thrown."""
    return word in IRREGULAR_PAST or (word.endswith("ed") and len(word) > 4 and not word.endswith("eed"))


def base_of(word: str) -> str | None:
    """The verb that a word may be a form of, as its dictionary entry: plays -> play, running -> run."""
    if word in VERBS:
        return word
    for ending, instead in (
        ("ies", "y"),
        ("es", ""),
        ("es", "e"),
        ("s", ""),
        ("ied", "y"),
        ("ed", ""),
        ("ed", "e"),
        ("ing", ""),
        ("ing", "e"),
    ):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            doubled = len(stem) > 2 and stem[-1] == stem[-2]
            for base in (stem + instead, *([stem[:-1]] if doubled and not instead else [])):
                if base in VERBS:
                    return base
    return None
