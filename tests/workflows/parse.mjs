// Reads workflow and action files with GitHub's own parser: `node parse.mjs FILE...`, from the repository's root.
// Prints each fault as `file:line: message`. Exit status: 0 without a fault, 1 with one.

import { readFile } from "node:fs/promises";
import { register } from "node:module";
import { basename } from "node:path";

register("./json_imports.mjs", import.meta.url);
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = await import("@actions/workflow-parser");
const { ErrorPolicy } = await import("@actions/workflow-parser/model/convert");
const { convertActionTemplate, parseAction } = await import("@actions/workflow-parser/actions/index");

// Every fault at once: a broken key does not hide a wrong input.
const READ_ON = { errorPolicy: ErrorPolicy.TryConversion, fetchReusableWorkflowDepth: 1 };

const NOBODY_LISTENS = new NoOperationTraceWriter();

// What `./` and `$/` name is looked up, so that inputs and secrets are held against the called workflow.
// A workflow of another repository is not at hand: it is taken as it is named.
const CALLED_WORKFLOWS = {
  getFileContent: ({ repository, path }) => (repository ? Promise.reject(new Error("not at hand")) : read(path)),
};

async function read(name) {
  return { name, content: await readFile(name, "utf8") };
}

async function faultsOf(name) {
  const file = await read(name);
  const isAction = /^action\.ya?ml$/.test(basename(name));
  const { context, value } = (isAction ? parseAction : parseWorkflow)(file, NOBODY_LISTENS);
  if (value && isAction) convertActionTemplate(context, value, READ_ON);
  else if (value) await convertWorkflowTemplate(context, value, CALLED_WORKFLOWS, READ_ON);
  return context.errors.getErrors().filter((error) => !callsElsewhere(error, file)).map((error) => sentence(error, name));
}

function callsElsewhere({ rawMessage, range }, { content }) {
  if (rawMessage !== "Unable to find reusable workflow") return false;
  return !/uses:\s*["']?[.$]\//.test(content.split("\n")[range.start.line - 1]);
}

function sentence(error, name) {
  const where = error.prefix?.replace(/ \(Line: .*\)$/, "") || name;
  return `${where}:${error.range?.start.line ?? 1}: ${error.rawMessage.split("\n", 1)[0]}`;
}

const faults = (await Promise.all(process.argv.slice(2).map(faultsOf))).flat();
const inOrder = [...new Set(faults)].sort(new Intl.Collator("en", { numeric: true }).compare);
for (const fault of inOrder) console.log(fault);
process.exitCode = faults.length > 0 ? 1 : 0;
