/** What a tool is given, as people read it and as they may change it. */

/** JSON as people read it; a terminal's one command by itself; anything else as it came. */
export function shownInput(text: string): string {
  const value = parsed(text);
  return value === undefined ? text : (commandIn(value) ?? JSON.stringify(value, null, 2));
}

/** As `shownInput`, in a form that is taken back. */
export function editableInput(text: string): string {
  const value = parsed(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

/** Whether a changed input is still of the kind that it was: JSON stays JSON. */
export function isInputLike(text: string, before: string): boolean {
  return parsed(before) === undefined || parsed(text) !== undefined;
}

function parsed(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) {
    return undefined;
  }
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined; // not JSON after all
  }
}

/** The one thing that a terminal's tool is given. */
function commandIn(value: object): string | undefined {
  const given = Object.entries(value);
  const [key, text] = given.length === 1 ? given[0]! : [];
  return key === 'command' && typeof text === 'string' ? text : undefined;
}
