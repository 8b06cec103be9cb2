// The page knows the names of the projects. All that it shows of one comes from finder/PROJECT.js, a script that calls
// `finder`: a page that was opened from a folder may load nothing else. Names and reasons were written by others, so
// they become text, never markup.

const ROOT = rootOf(document.baseURI);
const COPIED_FOR = 2000; // milliseconds

const byId = (id) => document.getElementById(id);

/** Return the address of the folder that a page is in, without the password that it may have been opened with. */
function rootOf(address) {
  const root = new URL(".", address);
  root.username = "";
  root.password = "";
  return root;
}

/** Return an address as a URL; null where it is none of the web or of a folder. */
function resolved(address) {
  try {
    const url = new URL(address, ROOT);
    return ["http:", "https:", "file:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

/** Return a new element; a property that is undefined is left out. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== ""));
  return made;
}

/** Return a link to an address of the web or of a folder; to anything else, only the text. */
function link(address, text) {
  const url = resolved(address);
  return url ? element("a", { href: url.href }, text) : element("span", {}, text);
}

/** Return a group of radio buttons. */
function group(legend, name, chips) {
  const inner = element("div", { className: "chips" }, ...chips);
  return element("fieldset", { id: `axis-${name}` }, element("legend", {}, legend), inner);
}

/** Return a radio button with its label. */
function chip(name, value, label, chosen) {
  const input = element("input", { type: "radio", name, value });
  input.onchange = chosen;
  const mark = element("span", { className: "unseen" });
  return element("label", { className: "chip" }, input, element("span", {}, label, mark));
}

/** Return a command, or the text of a file, with a button that copies it. */
function commandBox({ kind, title, text }) {
  const code = element("code", {}, ...wordsOf(text));
  const parts = [element("p", { className: "title" }, title), element("pre", {}, code), copyButton(title, text, code)];
  return element("div", { className: "command", "data-kind": kind }, ...parts);
}

/** Return a text whose words, quoted ones as well, are not broken if they have room on a line of their own. */
function wordsOf(text) {
  const parts = text.match(/\s+|(?:'[^'\n]*'|"[^"\n]*"|[^\s'"])+|['"]/g) ?? [];
  return parts.map((part) => (/^\s/.test(part) ? part : element("span", {}, part)));
}

function copyButton(title, text, shown) {
  const button = element("button", { type: "button", className: "copy", "aria-label": `Copy: ${title}` }, "Copy");
  button.onclick = () => copy(text, shown, button);
  return button;
}

/** Copy a text; where the browser keeps the clipboard to itself, select the text instead. */
async function copy(text, shown, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(shown);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Selected";
  byId("copied").textContent = done ? "It is copied." : "It is selected: copy it now.";
  setTimeout(() => {
    button.textContent = "Copy";
    byId("copied").textContent = "";
  }, COPIED_FOR);
}
