/** A text in the reader's language. `%1`, `%2`… stand for the arguments. */
export type Translate = (text: string, ...args: (string | number)[]) => string;

export interface Words {
  readonly t: Translate;
  /** The singular or the plural, by `count`; `%1` stands for the count. */
  readonly n: (singular: string, plural: string, count: number) => string;
}

/** What JupyterLab's translation bundles offer; see `ITranslator.load`. */
export interface Bundle {
  __(text: string, ...args: (string | number)[]): string;
  _n(singular: string, plural: string, count: number, ...args: (string | number)[]): string;
}

export function wordsOf(bundle: Bundle): Words {
  return {
    t: (text, ...args) => bundle.__(text, ...args),
    n: (singular, plural, count) => bundle._n(singular, plural, count, count)
  };
}

function fill(text: string, args: (string | number)[]): string {
  return text.replace(/%(\d)/g, (whole, digit: string) => {
    const value = args[Number(digit) - 1];
    return value === undefined ? whole : String(value);
  });
}

/** English, where no translator is at hand. */
export const english: Words = {
  t: (text, ...args) => fill(text, args),
  n: (singular, plural, count) => fill(count === 1 ? singular : plural, [count])
};
