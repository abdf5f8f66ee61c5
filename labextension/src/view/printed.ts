const ALTERNATE = /\x1b\[\?(?:1049|1047|47)h[\s\S]*?(?:\x1b\[\?(?:1049|1047|47)l|$(?![\s\S]))/g;
const ESCAPES =
  /\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$(?![\s\S]))|[\]PX^_][\s\S]*?(?:\x07|\x1b\\|$(?![\s\S]))|[ -/]+[0-~]|[0-~]|$(?![\s\S]))/g;
const CONTROLS = /[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]/g;

/**
 * A terminal's output as text to read: no colours, a line that was written over as it was last, no full-screen program.
 * The host makes the text that it keeps of a command in the same way.
 */
export function printed(output: string): string {
  return output
    .replace(ALTERNATE, '')
    .replace(ESCAPES, '')
    .replace(CONTROLS, '')
    .replace(/\r+\n/g, '\n')
    .split('\n')
    .map(line => lastWritten(erased(line)))
    .join('\n')
    .replace(/^\n+|\n+$/g, '');
}

function erased(line: string): string {
  if (!line.includes('\b')) {
    return line;
  }
  const seen: string[] = [];
  for (const character of line) {
    if (character === '\b') {
      seen.pop();
    } else {
      seen.push(character);
    }
  }
  return seen.join('');
}

function lastWritten(line: string): string {
  return line.split('\r').reduce((seen, part) => part + seen.slice(part.length), '');
}
