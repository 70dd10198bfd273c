// The forms of the reference: each sends its request to this server and shows the answer.

const MOST = 20_000;  // characters of an answer that are shown

/** Parameters without a value are left out. */
function requestOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  const options = { method: form.dataset.method, headers: {} };
  for (const field of form.querySelectorAll("[data-in]")) {
    const { name, value } = field;
    const place = field.dataset.in;
    if (place === "file") {
      options.body = new FormData();
      options.body.append("file", field.files[0]);
    } else if (place === "body") {
      options.headers["Content-Type"] = "application/json";
      options.body = value;
    } else if (value !== "") {
      if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
      else if (place === "header") options.headers[name] = encodeURIComponent(value);
      else for (const one of value.split(",")) query.append(name, one.trim());
    }
  }
  return [`${path}${query.size ? `?${query}` : ""}`, options];
}

async function answerOf(response) {
  const kind = response.headers.get("content-type") ?? "";
  if (kind.includes("json")) return JSON.stringify(await response.json(), null, 1);
  if (kind.startsWith("text/") || kind.includes("subrip")) return response.text();
  return `${kind}, ${(await response.blob()).size} bytes`;
}

document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const shown = form.querySelector(".answer");
  const [address, options] = requestOf(form);
  shown.hidden = false;
  shown.textContent = `${options.method} ${address}\n...`;
  try {
    const response = await fetch(address, options);
    const text = response.status === 204 ? "" : await answerOf(response);
    shown.textContent = `${options.method} ${address}\n${response.status}\n${text.slice(0, MOST)}`;
  } catch (problem) {
    shown.textContent = `${options.method} ${address}\n${problem.message}`;
  }
});
