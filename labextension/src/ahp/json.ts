/** True when two JSON values say the same; an absent key, null and undefined are one thing. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (Object.is(a, b) || (a == null && b == null)) {
    return true;
  }
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') {
    return false;
  }
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((entry, index) => sameJson(entry, b[index]))
    );
  }
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].every(key =>
    sameJson(left[key], right[key])
  );
}
