// Elements made of data. Strings become text nodes and nothing here reads markup: a video's name or a caption cannot
// bring its own.

export const byId = (id) => document.getElementById(id);

/** make("p", {class: "quiet", hidden: true, onclick: act}, "text", child): an element. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const ICONS = {
  play: "M8 5.5v13l11-6.5z",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z",
  sound: "M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15 8.6a4.6 4.6 0 0 1 0 6.8l1.3 1.4a6.5 6.5 0 0 0 0-9.6z",
  silence: "M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM14.6 9.2 13.4 10.4l1.7 1.6-1.7 1.6 1.2 1.2 1.7-1.7 1.6 1.7 1.2-1.2-1.6-1.6 1.6-1.6-1.2-1.2-1.6 1.7z",
  wide: "M5 5h5v1.9H6.9V10H5zM14 5h5v5h-1.9V6.9H14zM5 14h1.9v3.1H10V19H5zM17.1 14H19v5h-5v-1.9h3.1z",
  pen: "M4 17.2V20h2.8L17 9.8 14.2 7zM18.9 7.9a1 1 0 0 0 0-1.4l-1.4-1.4a1 1 0 0 0-1.4 0L15 6.2 17.8 9z",
  words: "M4 6h16v12H4zm1.8 1.8v8.4h12.4V7.8zM7.5 13.2h4v1.7h-4zm5.5 0h3.5v1.7H13zM7.5 10h2.5v1.7H7.5zm4 0h5v1.7h-5z",
  bin: "M9 4h6l.7 1.6H19v1.7H5V5.6h3.3zM6.4 8.6h11.2L16.9 19a1.2 1.2 0 0 1-1.2 1.1H8.3A1.2 1.2 0 0 1 7.1 19z",
};

export function icon(name) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("class", `icon icon-${name}`);
  picture.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(picture.namespaceURI, "path");
  path.setAttribute("d", ICONS[name]);
  picture.append(path);
  return picture;
}

/** Where on a band something stands, 0..1. A script may set styles where the policy forbids style attributes. */
export function place(element, left, width = null) {
  element.style.left = `${100 * left}%`;
  if (width !== null) element.style.width = `${100 * width}%`;
}

/** Says a line to those who listen to the page; nothing is seen. */
export function announce(text) {
  const announcer = byId("announcer");
  announcer.textContent = "";
  // The same words twice in a row are a change only if there was nothing between them.
  requestAnimationFrame(() => { announcer.textContent = text; });
}
