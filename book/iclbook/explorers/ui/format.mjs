// @ts-check
// Numbers as the page writes them.

// This is made once, since making it takes longer than using it.
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/** Four digits, or two and a power of ten. */
export function format(/** @type {number} */ value) {
  if (value === 0) return "0";
  if (value < 0) return `−${format(-value)}`;
  if (value < 1e6 && value >= 1e-3) return plain.format(Number(value.toPrecision(4)));
  const [digits, power] = value.toExponential(1).split("e");
  const factor = Number(digits) === 1 ? "" : `${Number(digits)}·`;
  return `${factor}10${superscript(Number(power))}`;
}

export const count = (/** @type {number} */ n, /** @type {string} */ noun) =>
  `${format(n)} ${noun}${n === 1 ? "" : "s"}`;

export const superscript = (/** @type {number} */ n) =>
  [...String(n)].map((digit) => digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");

export const subscript = (/** @type {number} */ n) =>
  [...String(n)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]).join("");
