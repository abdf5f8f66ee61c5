/** `\( x \)` and `\[ x \]`, as many models write them, as the `$` forms that Jupyter knows; code is left alone. */
export function dollars(source: string): string {
  if (!source.includes('\\(') && !source.includes('\\[')) {
    return source;
  }
  return source.replace(
    /(`+)[\s\S]*?\1|\\\(([\s\S]+?)\\\)|\\\[([\s\S]+?)\\\]/g,
    (whole, _code: string | undefined, inline?: string, display?: string) => {
      if (inline !== undefined) {
        return `$${inline.trim()}$`;
      }
      return display === undefined ? whole : `$$${display}$$`;
    }
  );
}

/** Whether there may be mathematics in a piece of markdown. */
export function hasMath(source: string): boolean {
  return /\$|\\begin\{|\\\(|\\\[/.test(source);
}
