// Evaluates functions that have the explorers' modules in scope, for tests/javascript.py.
//
// Each line of the input is [source, ...arguments] as JSON; the answer is one line, [value] or { error }.

const names = [], modules = [];
async function load(folder) {
  for (const { name, isDirectory } of Deno.readDirSync(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) await load(path);
    else if (name.endsWith(".mjs")) {
      names.push(name.slice(0, -".mjs".length));
      modules.push(await import(`file://${path}`));
    }
  }
}
await load(Deno.args[0]);

const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
function answer(line) {
  const [source, ...given] = JSON.parse(line);
  try {
    return [new Function(...names, `return ${source}`)(...modules)(...given) ?? null];
  } catch (error) {
    return { error: String(error.stack) };
  }
}

const output = new TextEncoder();
let rest = "";
for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    let bytes = output.encode(`${JSON.stringify(answer(line), plain)}\n`);
    while (bytes.length) bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
  }
}
