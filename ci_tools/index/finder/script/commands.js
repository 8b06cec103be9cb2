// The lines that install a file, for each installer.

const PROJECT = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const PIN = /^[A-Za-z0-9.!+_-]+$/;
const SHA256 = /^[0-9a-f]{64}$/;
const NEEDS_NO_QUOTES = /^[\w@%+=:,./-]+$/;
const NEEDS_ESCAPE = /[^\w.~:/?#@%=+,[\]-]/g; // in an address that goes to a shell

const LAST = "The last command takes this file or none.";
const EXPLICIT = "It is explicit: it serves only the packages that name it.";

// An installer has the blocks that it shows for a file, each a kind, a title and a text, and a note.
const INSTALLERS = new Map(Object.entries({
  pip: {
    blocks: (file) => [byVersion("pip install", "--extra-index-url", file), byFile("pip install", file)],
    torch: (line) => `pip install uv\npython -m uv pip install ${line}`,
    note: `pip asks your other indexes too, and may take a package of this name from there. ${LAST}`,
  },
  uv: {
    blocks: (file) => [byVersion("uv pip install", "--index", file), byFile("uv pip install", file)],
    torch: (line) => `uv pip install ${line}`,
    note: `uv takes a project from the first index that has it, and asks this one first. ${LAST}`,
  },
  poetry: {
    blocks: (file) => {
      const name = `wheels${file.folder ? `-${file.folder.replace(/[^a-z0-9]+/g, "-")}` : ""}`;
      const source = `poetry source add --priority=explicit ${name} ${quoted(folderOf(file))}`;
      const text = `${source}\npoetry add --source ${name} ${quoted(pinned(file))}`;
      return [{ kind: "version", title: "From this index", text }];
    },
    torch: (line) => `poetry run pip install uv\npoetry run python -m uv pip install ${line}`,
    note: `${EXPLICIT} poetry does not keep the build of torch: run its line again after poetry install.`,
  },
  "requirements.txt": {
    blocks: (file) => [
      {
        kind: "requirements",
        title: "requirements.txt, with the hash",
        text: `--extra-index-url ${folderOf(file)}\n${pinned(file)} --hash=sha256:${file.sha256}`,
      },
      { kind: "file", title: "Install it", text: "pip install --no-deps -r requirements.txt" },
    ],
    torch: (line) => `pip install uv\npython -m uv pip install ${line}`,
    note: "Where one line has a hash, pip wants one for each requirement: --no-deps leaves out those of this file.",
  },
  "pyproject.toml": {
    blocks: (file) => [{ kind: "pyproject", title: "pyproject.toml, for uv sync", text: pyproject(file) }],
    torch: (line) => `uv pip install ${line}`,
    note: `${EXPLICIT} uv sync takes torch from your usual index: give it PyTorch's own in the same way.`,
  },
  "pylock.toml": {
    blocks: (file) => [
      { kind: "pylock", title: "pylock.toml (PEP 751)", text: pylock(file) },
      { kind: "file", title: "Install it", text: "uv pip install -r pylock.toml" },
    ],
    torch: (line) => `uv pip install ${line}`,
    note: "It locks this file, and nothing that this file needs. pip 26.1 reads it too: pip install -r pylock.toml.",
  },
  Docker: {
    blocks: (file) => (isLinux() ? [{ kind: "docker", title: "Dockerfile", text: dockerfile(file) }] : []),
    torch: () => "",
    note: "torch brings CUDA along: the image needs none, only docker run --gpus all. It is built without a GPU.",
  },
}));

/** Return the lines for torch and a file, as titled blocks. */
function blocksFor(file) {
  const installer = INSTALLERS.get(state.installer);
  const line = torchLine();
  const torch = line && installer.torch(line);
  const first = torch ? [{ kind: "torch", title: `First ${torchInWords()}`, text: torch }] : [];
  const blocks = installer.blocks(file);
  if (file.name.endsWith(".whl")) return [...first, ...blocks];
  return blocks.filter(({ kind }) => kind === "file"); // an sdist by its version would be another file
}

/** Return what installs the chosen build of torch, for uv, which knows PyTorch's indexes; "" without torch. */
function torchLine() {
  const { torch, accelerator, system } = state.choice;
  if (!torch) return "";
  const pin = quoted(`torch==${own(TORCHES, torch)?.patch ?? anyOf(torch)}`);
  return system.startsWith("macos") ? pin : `${pin} --torch-backend=${accelerator || "cpu"}`;
}

/** Return the version of any patch release of a torch, or of that very nightly. */
const anyOf = (torch) => (torch.includes(".dev") ? torch : `${torch}.*`);

function torchInWords() {
  const { torch, accelerator } = state.choice;
  return `torch ${torch}${accelerator ? ` for ${labelOf("accelerator", accelerator)}` : ""}`;
}

/** Return an argument as the shell of the chosen system takes it. */
function quoted(text) {
  if (NEEDS_NO_QUOTES.test(text)) return text;
  return state.choice.system?.startsWith("windows") ? `"${text}"` : `'${text}'`;
}

/** Return an address in which nothing means anything to a shell. */
function addressOf(path) {
  const escaped = (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  return resolved(path).href.replace(NEEDS_ESCAPE, escaped);
}

/** Return the address of the index folder that lists a file. */
function folderOf({ folder = "" }) {
  return addressOf(folder ? `${encodeURIComponent(folder)}/` : "./");
}

const isLinux = () => state.choice.system.startsWith("linux");

const pinned = ({ pin }) => `${state.project}==${pin}`;

/** Return the command that takes a file by its version, from the index folder that lists it. */
function byVersion(install, index, file) {
  const text = [install, index, quoted(folderOf(file)), quoted(pinned(file))].join(" ");
  return { kind: "version", title: "From this index", text };
}

/** Return the command that takes this very file and no other. */
function byFile(install, { address, sha256 }) {
  const text = `${install} ${quoted(`${state.project} @ ${addressOf(address)}#sha256=${sha256}`)}`;
  return { kind: "file", title: "Or this very file, checked by its hash", text };
}

const toml = (value) => JSON.stringify(value); // of texts without control characters, TOML's strings are JSON's

function pyproject(file) {
  const torch = state.choice.torch ? [`torch==${anyOf(state.choice.torch)}`] : [];
  return [
    "[project]",
    `dependencies = [${[...torch, pinned(file)].map(toml).join(", ")}]`,
    "",
    "[[tool.uv.index]]",
    'name = "wheels"',
    `url = ${toml(folderOf(file))}`,
    "explicit = true",
    "",
    "[tool.uv.sources]",
    `${state.project} = { index = "wheels" }`,
  ].join("\n");
}

function pylock({ name, pin, address, sha256, size }) {
  return [
    'lock-version = "1.0"',
    'created-by = "fatwheel"',
    "",
    "[[packages]]",
    `name = ${toml(state.project)}`,
    `version = ${toml(pin)}`,
    "",
    "[[packages.wheels]]",
    `name = ${toml(name)}`,
    `url = ${toml(addressOf(address))}`,
    ...(size ? [`size = ${size}`] : []),
    `hashes = { sha256 = ${toml(sha256)} }`,
  ].join("\n");
}

function dockerfile(file) {
  const { python, torch } = state.choice;
  const isFree = python.endsWith("t"); // the image of Python has no free-threaded one
  const start = isFree
    ? ["FROM debian:stable-slim", "# First uv, and a free-threaded Python by `uv python install`, as you like them."]
    : [`FROM python:${python || "3"}-slim`, "RUN pip install --no-cache-dir uv"];
  const local = "# This index is a folder of your machine: COPY it into the image, to the same place.";
  const install = "RUN uv pip install --system --no-cache";
  return [
    ...start,
    ...(torch ? [`${install} ${torchLine()}`] : []),
    ...(ROOT.protocol === "file:" ? [local] : []),
    `${install} --index '${folderOf(file)}' '${pinned(file)}'`,
  ].join("\n");
}

/** Whether nothing in a command for a file could mean something to a shell. */
function canBeNamed({ pin = "", sha256, address }) {
  return PROJECT.test(state.project) && PIN.test(pin) && SHA256.test(sha256) && resolved(address) !== null;
}
