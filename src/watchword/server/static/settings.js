// Choices that a browser remembers. Without its storage they last as long as the page.

const held = new Map();

export function recall(key, fallback = "") {
  try {
    return localStorage.getItem(`watchword.${key}`) ?? held.get(key) ?? fallback;
  } catch {
    return held.get(key) ?? fallback;
  }
}

export function keep(key, value) {
  held.set(key, value);
  try {
    localStorage.setItem(`watchword.${key}`, value);
  } catch { /* a private window, or a full disk */ }
}
