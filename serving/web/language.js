// The language of a text, as the server tells it (core/languages.py): Triton in Python, else HIP.

const IMPORTS = /^[ \t]*(?:import[ \t][^\n]*\btriton\b|from[ \t]+triton\b)/m;
const KERNEL = /^[ \t]*@(?:triton\.)?jit\b/m;

export function isScript(text) {
  return IMPORTS.test(text) && KERNEL.test(text);
}
