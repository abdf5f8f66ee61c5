import type { Attachment, Message, TextRange } from '../ahp';

/** Something that is attached by words in the text: it goes along as long as they stand there. */
export interface Reference {
  /** The words; none, if it was attached without any. */
  readonly mark: string;
  readonly attachment: Attachment;
}

/** What a text carries: of what is attached by words, what still stands there, with the place where it does. */
export function attachmentsIn(text: string, references: readonly Reference[]): Attachment[] {
  const places = new Map<Reference, TextRange>();
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
      const range = places.get(reference);
      return range ? { ...reference.attachment, range } : reference.attachment;
    });
}

function find(text: string, mark: string, taken: TextRange[]): TextRange | undefined {
  for (let start = text.indexOf(mark); start >= 0; start = text.indexOf(mark, start + 1)) {
    const end = start + mark.length;
    const isWord = start === 0 || /\s/.test(text[start - 1]);
    if (isWord && !taken.some(other => start < other.end && other.start < end)) {
      return { start, end };
    }
  }
  return undefined;
}

/** The attachments of a message that is written on, with the words that they stand for. */
export function referencesOf(
  message: Pick<Message, 'text' | 'attachments'> | undefined
): Reference[] {
  return (message?.attachments ?? []).map(attachment => ({
    mark: attachment.range ? message!.text.slice(attachment.range.start, attachment.range.end) : '',
    attachment
  }));
}
