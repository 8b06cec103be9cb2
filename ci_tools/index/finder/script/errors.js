// The cause of an error that was pasted: the twin of causes.py, with its tables, CAUSES and TEXT; a test holds them equal.

const [ESCAPES, SPACES, RECOVERED] = ["escapes", "spaces", "recovered"].map((name) => new RegExp(TEXT[name], "g"));
const [HEAD, REST, PROBES, WARNING, HARMLESS, FAILING] = ["head", "rest", "probes", "warning", "harmless", "failing"]
  .map((name) => new RegExp(TEXT[name]));
const LATE = 2; // what counts later than this is harmless on its own
const [UNKNOWN, VAGUE] = [8, 9]; // a line with an error whose cause is not known, what says only that something failed
const SIGNS = CAUSES.map(({ signs }) => signs.map((sign) => new RegExp(sign, "gm")));

/** Return the cause that decides, or the first error where none is known; null if no line has an error. */
function explain(text) {
  const lines = plainLines(text);
  const plain = lines.map(([, line]) => line).join("\n");
  const over = Math.max(0, ...[...plain.matchAll(RECOVERED)].map((one) => one.index + one[0].length));
  let found = CAUSES.flatMap(({ late }, at) => matchesOf(at, plain).map((match) => {
    return { rank: [latenessOf(late, plain, match), countLines(plain.slice(0, match.index)), at], match };
  })).filter(({ match }) => match.index >= over).sort((a, b) => compareParts(a.rank, b.rank));
  if (found.length) {
    const { rank: [rank, place], match } = found[0];
    const isFailing = FAILING.test(plain.slice(match.index + match[0].length))
      || found.some((one) => one.rank[0] === VAGUE);
    if (rank > LATE && rank < UNKNOWN && isFailing) {
      found = found.filter((one) => one.rank[0] >= UNKNOWN && one.rank[1] !== place);
    }
  }
  if (!found.length) return null;
  const { rank: [, place, at], match } = found[0];
  const { name, late, lines: offer, cuda, ...row } = CAUSES[at];
  const values = Object.fromEntries(Object.entries({ library: "", ...match.groups }).map(([group, value]) => {
    return [group, (value ?? "").trim().split(/\s+/).join(" ")];
  }));
  values.library ||= "the library";
  const filled = (words) => words.replace(/\$(\w+)/g, (whole, group) => own(values, group) ?? whole);
  const [says, why, mend, look] = [row.says, row.why, row.mend, row.look].map(filled);
  const quote = quoteOf(plain, match.index, match.index + match[0].length);
  return { name, known: late < UNKNOWN, says, why, mend, look, lines: offer, cuda, quote, line: lines[place][0] };
}

/** Return the last lines of a text and their numbers, without colours and odd spaces; what uv wraps is one line. */
function plainLines(text) {
  const whole = text.split(/\r\n?|\n/);
  const skipped = Math.max(whole.length - TEXT.lines, 0);
  const lines = [];
  let wrapped = false;
  whole.slice(skipped).forEach((raw, place) => {
    const line = cut(raw.replace(ESCAPES, "").replace(SPACES, " ").replace(/[\u2018\u2019`]/g, "'")
      .replace(/[\u201c\u201d]/g, '"'));
    const rest = wrapped ? REST.exec(line) : null;
    if (rest && [...lines.at(-1)[1]].length < TEXT.joined) {
      const [first, before] = lines.pop();
      const gap = before.endsWith("-") ? "" : " ";
      lines.push([first, before.replace(/ +$/, "") + gap + line.slice(rest[0].length)]);
    } else {
      lines.push([skipped + place + 1, line]);
      wrapped = HEAD.test(line);
    }
  });
  return lines;
}

const cut = (line) => (line.length > TEXT.width ? [...line].slice(0, TEXT.width).join("") : line);
const countLines = (text) => text.split("\n").length - 1;

/** Return the first match of each sign in lines that are about no probe of a build system. */
function matchesOf(at, plain) {
  return SIGNS[at].flatMap((sign) => {
    for (const match of plain.matchAll(sign)) {
      if (!PROBES.test(quoteOf(plain, match.index, match.index + match[0].length))) return [match];
    }
    return [];
  });
}

/** Return how late a match counts: in a warning a strong sign is late, and a late one is last. */
function latenessOf(late, plain, { 0: words, index }) {
  const line = words.includes("\n") ? "" : quoteOf(plain, index, index + words.length);
  if (HARMLESS.test(line)) return late + 3;
  return WARNING.test(line) ? late + (late ? 2 : 1) : late;
}

/** Return the lines of a place in a text, at most TEXT.quoted. */
function quoteOf(plain, start, end) {
  const begin = start ? plain.lastIndexOf("\n", start - 1) + 1 : 0;
  const stop = plain.indexOf("\n", Math.max(end, start + 1) - 1);
  const lines = plain.slice(begin, stop < 0 ? undefined : stop).replace(/\n$/, "").split("\n");
  return lines.slice(0, TEXT.quoted).join("\n");
}

/** Return the cause that a text shows, what it says of the machine, and the packages that the cause is about. */
function diagnose(pasted) {
  const lines = plainLines(pasted);
  const answer = explain(pasted);
  const machine = readMachine(lines.map(([, line]) => line).join("\n"));
  // The new ABI is not found, and torch's wheels for Linux had the old one before 2.7: publish/wheel_facts.py.
  const isOld = machine.torch && compareParts(numbersIn(machine.torch).slice(0, 2), [2, 7]) < 0;
  if (isOld && answer?.name === "other-torch-abi" && /cxx11/.test(answer.quote)) machine.cxx11abi ??= false;
  return { machine, answer, projects: answer ? projectsOf(answer, lines) : [] };
}

const NO_PROJECT = ["torch", "lib", "lib64", "usr", "bin", "local", "pip", "python"];
const PROJECT_PLACES = [
  /(?:^|[\s/'"])([A-Za-z][\w.]{0,99})-\d[^\s/]{4,200}\.whl/g,
  /(?:site|dist)-packages\/([A-Za-z]\w{0,99})(?=[/.])/g,
  /(?:requirement|distribution found for|[Ff]ailed to build|building wheel for) '?([A-Za-z][\w.-]{0,99})/g,
  /(?:^|[\s/'"(])([A-Za-z]\w{0,99})\/[\w.-]{1,100}\.(?:so|pyd|dylib)\b/g,
  /DLL load failed while importing ([A-Za-z]\w{0,99})/g,
  /(?:^|\n) *Collecting ([A-Za-z][\w.-]{0,99})/g,
];

/** Return the packages whose file the quoted lines name; where they name none, the last one named before them. */
function projectsOf({ quote, line }, lines) {
  const own = projectsIn(quote);
  if (own.length) return own;
  const named = (kept) => projectsIn(kept.map(([, text]) => text).join("\n"));
  const before = named(lines.filter(([number]) => number < line));
  return before.length ? before.slice(-1) : named(lines).slice(0, 1);
}

/** Return the packages that a text names, in its order, but for torch, which is in every traceback. */
function projectsIn(text) {
  const plain = text.replace(/\\+/g, "/");
  const found = PROJECT_PLACES.flatMap((place) => [...plain.matchAll(place)]).sort((a, b) => a.index - b.index);
  const names = found.map(([, name]) => name.toLowerCase().replace(/[-_.]+/g, "-"));
  return [...new Set(names)].filter((name) => !NO_PROJECT.includes(name));
}

function driverIn({ driver, driver_cuda: cuda }) {
  return [driver, cuda && `${driver ? "(" : ""}of CUDA ${cuda}${driver ? ")" : ""}`].filter(Boolean).join(" ");
}
