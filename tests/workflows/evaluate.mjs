// Evaluates expressions with GitHub's own library: `node evaluate.mjs`, with {contexts, expressions} as JSON on stdin.
// Prints the list of results as JSON: [value] for each expression, or null for one that is refused or fails.

import { text } from "node:stream/consumers";
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";
import { replacer } from "@actions/expressions/data/replacer";
import { reviver } from "@actions/expressions/data/reviver";

const { contexts, expressions } = JSON.parse(await text(process.stdin));
const known = JSON.parse(JSON.stringify(contexts), reviver);
const names = Object.keys(contexts);

// A number that JSON lacks is printed by its name.
function shown(key, value) {
  const isOdd = value instanceof data.NumberData && !Number.isFinite(value.number());
  return isOdd ? `number ${value.number()}` : replacer(key, value);
}

function evaluate(expression) {
  try {
    const { tokens } = new Lexer(expression).lex();
    return [new Evaluator(new Parser(tokens, names, []).parse(), known).evaluate()];
  } catch {
    return null;
  }
}

console.log(JSON.stringify(expressions.map(evaluate), shown));
