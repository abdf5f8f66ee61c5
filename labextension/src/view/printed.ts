/** A terminal's output as people read it. */

/** Words of one look. */
export interface Run {
  readonly text: string;
  /** `red`, `bold`, …; empty for plain ones. */
  readonly look: string;
}

const ALTERNATE = /\x1b\[\?(?:1049|1047|47)h[\s\S]*?(?:\x1b\[\?(?:1049|1047|47)l|$(?![\s\S]))/g;
/** An escape sequence, cut off by the end of the output or not. */
const ESCAPE =
  /\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$(?![\s\S]))|[\]PX^_][\s\S]*?(?:\x07|\x1b\\|$(?![\s\S]))|[ -/]+[0-~]|[0-~]|$(?![\s\S]))/y;
const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

interface Style {
  colour: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const PLAIN: Readonly<Style> = {
  colour: '',
  bold: false,
  dim: false,
  italic: false,
  underline: false
};

/**
 * The lines of an output with the looks of their words: a line that was written over as it was last, no full-screen
 * program. The host makes the text that it keeps of a command in the same way, without the looks.
 */
export function linesOf(output: string): Run[][] {
  const text = output.replace(ALTERNATE, '');
  const lines: { character: string; look: string }[][] = [[]];
  let style: Style = { ...PLAIN };
  let look = '';
  let column = 0;
  for (let at = 0; at < text.length;) {
    const line = lines[lines.length - 1]!;
    const character = String.fromCodePoint(text.codePointAt(at)!);
    if (character === '\x1b') {
      ESCAPE.lastIndex = at;
      const escape = ESCAPE.exec(text)?.[0] ?? character;
      const codes = /^\x1b\[([0-9;:]*)m$/.exec(escape)?.[1];
      if (codes !== undefined) {
        style = styled(style, codes);
        look = lookOf(style);
      }
      at += escape.length;
      continue;
    }
    at += character.length;
    if (character === '\n') {
      lines.push([]);
      column = 0;
    } else if (character === '\r') {
      column = 0;
    } else if (character === '\b') {
      column = Math.max(0, column - 1);
      line.splice(column, 1);
    } else if (character === '\t' || !/[\x00-\x1f\x7f]/.test(character)) {
      line[column] = { character, look };
      column += 1;
    }
  }
  while (lines.length > 1 && lines[0]!.length === 0) {
    lines.shift();
  }
  while (lines.length > 1 && lines[lines.length - 1]!.length === 0) {
    lines.pop();
  }
  return lines.map(line => {
    const runs: { text: string; look: string }[] = [];
    for (const { character, look: own } of line) {
      const last = runs[runs.length - 1];
      if (last?.look === own) {
        last.text += character;
      } else {
        runs.push({ text: character, look: own });
      }
    }
    return runs;
  });
}

/** The text alone. */
export function printed(output: string): string {
  return linesOf(output)
    .map(runs => runs.map(({ text }) => text).join(''))
    .join('\n');
}

function lookOf({ colour, bold, dim, italic, underline }: Style): string {
  return [colour, bold && 'bold', dim && 'dim', italic && 'italic', underline && 'underline']
    .filter(Boolean)
    .join(' ');
}

/** A style after "select graphic rendition"; colours of more than sixteen are left out. */
function styled(before: Style, codes: string): Style {
  const style = { ...before };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let index = 0; index < numbers.length; index++) {
    const code = numbers[index]!;
    if (code === 0) {
      Object.assign(style, PLAIN);
    } else if (code === 1) {
      style.bold = true;
    } else if (code === 2) {
      style.dim = true;
    } else if (code === 3) {
      style.italic = true;
    } else if (code === 4) {
      style.underline = true;
    } else if (code === 22) {
      style.bold = style.dim = false;
    } else if (code === 23) {
      style.italic = false;
    } else if (code === 24) {
      style.underline = false;
    } else if (code >= 30 && code <= 37) {
      style.colour = COLOURS[code - 30]!;
    } else if (code >= 90 && code <= 97) {
      style.colour = COLOURS[code - 90]!;
    } else if (code === 39) {
      style.colour = '';
    } else if (code === 38 || code === 48) {
      const sixteen = numbers[index + 1] === 5 ? numbers[index + 2]! : Infinity;
      if (code === 38) {
        style.colour = sixteen < 16 ? COLOURS[sixteen % 8]! : '';
      }
      index += numbers[index + 1] === 5 ? 2 : 4;
    }
  }
  return style;
}
