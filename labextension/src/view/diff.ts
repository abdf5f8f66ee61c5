/** What changed between two texts, line by line. */

export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
  /** From 1, in the text before and in the one after. */
  readonly before?: number;
  readonly after?: number;
}

/** Lines that did not change and are left out. */
export interface Gap {
  readonly kind: 'gap';
  readonly lines: number;
}

/** So many comparisons at most; texts that differ in more are shown as one replaced by the other. */
const MOST = 4_000_000;
const CONTEXT = 3;

/** The lines of both, in order: the shortest way from one to the other, by their longest common subsequence. */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    start += 1;
  }
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  ) {
    end += 1;
  }
  const out: DiffLine[] = [];
  const same = (i: number, j: number): void =>
    void out.push({ kind: 'same', text: a[i]!, before: i + 1, after: j + 1 });
  for (let i = 0; i < start; i++) {
    same(i, i);
  }
  const height = a.length - end - start;
  const width = b.length - end - start;
  const longest = height * width <= MOST ? commonLengths(a, b, start, height, width) : undefined;
  let i = 0;
  let j = 0;
  while (i < height || j < width) {
    const at = (x: number, y: number): number => longest?.[x * (width + 1) + y] ?? 0;
    if (longest && i < height && j < width && a[start + i] === b[start + j]) {
      same(start + i, start + j);
      i += 1;
      j += 1;
    } else if (i < height && (j === width || !longest || at(i + 1, j) >= at(i, j + 1))) {
      out.push({ kind: 'removed', text: a[start + i]!, before: start + i + 1 });
      i += 1;
    } else {
      out.push({ kind: 'added', text: b[start + j]!, after: start + j + 1 });
      j += 1;
    }
  }
  for (let k = end; k > 0; k--) {
    same(a.length - k, b.length - k);
  }
  return out;
}

function linesOf(text: string): string[] {
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') {
    lines.pop();
  }
  return lines;
}

/** For each pair of places how many lines both have in common from there on. */
function commonLengths(
  a: readonly string[],
  b: readonly string[],
  start: number,
  height: number,
  width: number
): Uint32Array {
  const lengths = new Uint32Array((height + 1) * (width + 1));
  for (let i = height - 1; i >= 0; i--) {
    for (let j = width - 1; j >= 0; j--) {
      const here = i * (width + 1) + j;
      const below = here + width + 1;
      lengths[here] =
        a[start + i] === b[start + j]
          ? lengths[below + 1]! + 1
          : Math.max(lengths[below]!, lengths[here + 1]!);
    }
  }
  return lengths;
}

/** With what changed and a little around it; the rest is counted. */
export function folded(lines: readonly DiffLine[]): (DiffLine | Gap)[] {
  const near = lines.map((_, index) =>
    lines
      .slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1)
      .some(({ kind }) => kind !== 'same')
  );
  const out: (DiffLine | Gap)[] = [];
  lines.forEach((line, index) => {
    const last = out[out.length - 1];
    if (near[index]) {
      out.push(line);
    } else if (last?.kind === 'gap') {
      out[out.length - 1] = { kind: 'gap', lines: last.lines + 1 };
    } else {
      out.push({ kind: 'gap', lines: 1 });
    }
  });
  return out;
}
