"""What the words of captions can be: lists for `parts_of_speech.py`, written with the commonest words in mind."""

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
ADVERBS = frozenset(  # and pronouns, particles: all that is neither thing, event nor looks
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
