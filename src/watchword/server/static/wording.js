// Numbers and words as people read them.

/** 0:07, 12:30, 1:02:03; with tenths for a frame. */
export function clock(seconds, tenths = false) {
  const unit = tenths ? 10 : 1;
  const whole = Math.max(0, Math.round(seconds * unit)) / unit;
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = (whole % 60).toFixed(tenths ? 1 : 0).padStart(tenths ? 4 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** "7 seconds": what a screen reader says of 0:07. */
export function spokenClock(seconds) {
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 3600), "hour"], [Math.floor(whole / 60) % 60, "minute"], [whole % 60, "second"]];
  const said = parts.filter(([number]) => number).map(([number, unit]) => counted(number, unit));
  return said.join(" ") || "0 seconds";
}

export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, number)) / 3));
  const value = number / 1000 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}

export const percent = (share) => `${Math.round(share * 100)} %`;

export const confidence = (number) => number.toFixed(2);

/** "A man is driving a car." of what a captioner says. */
export function asSentence(text) {
  const trimmed = text.trim();
  if (!trimmed) return "";
  return trimmed[0].toLocaleUpperCase("en") + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

/** "Perhaps a man is driving a car?": a caption that is only a guess. */
export function asGuess(text) {
  const sentence = asSentence(text);
  return sentence && `Perhaps ${text.trim().replace(/[.!?]+$/, "")}?`;
}

/** What is said of a video, a segment or a hit: a sentence, or a guess. */
export const spoken = ({ caption, unsure }) => (unsure ? asGuess(caption) : asSentence(caption));

/** "edited", "unsure, 0.21" or "0.64". */
export const certainty = (said) =>
  (said.edited ? "edited" : `${said.unsure ? "unsure, " : ""}${confidence(said.confidence)}`);

/** Whether a word stands close to the one before it: "'s", "n't", a comma. */
export const clings = (word) => /^('|n't$|[.,!?;:%)])/.test(word);

const KINDS = { temporal: "over time", spatial: "over the picture" };

/** "spatial:appearance_grid", the name of an attention head: "appearance grid, over the picture". */
export function headName(name) {
  const [stream, kind] = name.replaceAll("_", " ").split(":").reverse();
  return kind ? `${stream}, ${KINDS[kind] ?? kind}` : stream;
}

export function day(seconds) {
  return new Date(seconds * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}
