/** Writes into a box as if it had been typed: undo takes it back, where the browser can do that for a script. */
export function typeInto(box: HTMLTextAreaElement, text: string, start: number, end: number): void {
  const before = box.value;
  box.setSelectionRange(start, end);
  const typed = box.ownerDocument.execCommand?.('insertText', false, text);
  if (!typed || box.value === before) {
    box.setRangeText(text, start, end, 'end');
  }
}
