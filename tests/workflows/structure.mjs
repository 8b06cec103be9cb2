// Reads workflows with GitHub's own parser: `node structure.mjs FILE...`.
// Prints for each its events and jobs as JSON, with expressions as {"expr": "…"}.

import { readFile } from "node:fs/promises";
import { register } from "node:module";

register("./json_imports.mjs", import.meta.url);
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = await import("@actions/workflow-parser");
const { ErrorPolicy } = await import("@actions/workflow-parser/model/convert");

async function structure(name) {
  const file = { name, content: await readFile(name, "utf8") };
  const { context, value } = parseWorkflow(file, new NoOperationTraceWriter());
  const { events, jobs } = await convertWorkflowTemplate(context, value, undefined, {
    errorPolicy: ErrorPolicy.TryConversion,
  });
  const read = ({ id, needs, if: condition, strategy, ref, steps }) => ({ id, needs, condition, strategy, ref, steps });
  return { events: Object.keys(events), jobs: jobs.map(read) };
}

console.log(JSON.stringify(await Promise.all(process.argv.slice(2).map(structure))));
