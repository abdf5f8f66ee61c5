import type { Attachment, Message, TextPosition } from '../ahp';

/** Something that is attached by words in the text: it goes along as long as they stand there. */
export interface Reference {
  /** The words; none, if it was attached without any. */
  readonly mark: string;
  readonly attachment: Attachment;
}

/** Where words stand, from and up to. */
type Place = readonly [start: number, end: number];

/** What a text carries: of what is attached by words, what still stands there, with the place where it does. */
export function attachmentsIn(text: string, references: readonly Reference[]): Attachment[] {
  const places = new Map<Reference, Place>();
  // the longest first, since `@src/` stands in `@src/plots.py`, too
  for (const reference of [...references].sort((a, b) => b.mark.length - a.mark.length)) {
    const place = reference.mark && find(text, reference.mark, [...places.values()]);
    if (place) {
      places.set(reference, place);
    }
  }
  return references
    .filter(reference => !reference.mark || places.has(reference))
    .map(reference => {
      const place = places.get(reference);
      const range = place && {
        start: positionOf(text, place[0]),
        end: positionOf(text, place[1])
      };
      return range ? { ...reference.attachment, range } : reference.attachment;
    });
}

function find(text: string, mark: string, taken: Place[]): Place | undefined {
  for (let start = text.indexOf(mark); start >= 0; start = text.indexOf(mark, start + 1)) {
    const end = start + mark.length;
    const isWord = start === 0 || /\s/.test(text[start - 1]);
    if (isWord && !taken.some(([from, to]) => start < to && from < end)) {
      return [start, end];
    }
  }
  return undefined;
}

/** The attachments of a message that is written on, with the words that they stand for. */
export function referencesOf(
  message: Pick<Message, 'text' | 'attachments'> | undefined
): Reference[] {
  const { text, attachments = [] } = message ?? { text: '' };
  return attachments.map(attachment => {
    const { range } = attachment;
    const mark = range ? text.slice(indexOf(text, range.start), indexOf(text, range.end)) : '';
    return { mark, attachment };
  });
}

function positionOf(text: string, index: number): TextPosition {
  const before = text.slice(0, index).split('\n');
  return { line: before.length - 1, character: before[before.length - 1].length };
}

function indexOf(text: string, { line, character }: TextPosition): number {
  const before = text.split('\n').slice(0, line);
  return before.join('\n').length + (line > 0 ? 1 : 0) + character;
}
