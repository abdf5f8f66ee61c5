import type { StringOrMarkdown } from '../ahp';

/** The source of a text that may be markdown. */
export function textOf(value: StringOrMarkdown | undefined): string {
  return value === undefined ? '' : typeof value === 'string' ? value : value.markdown;
}

/** Whether the host runs a message in a terminal: only where it said with which prefix it does (AHP 1.4). */
export function isCommand(text: string, prefix: string | undefined): boolean {
  return !!prefix && text.startsWith(prefix) && text.slice(prefix.length).trim() !== '';
}

/** Markdown as it would be read aloud: without its marks, without code. */
export function spoken(markdown: string): string {
  return markdown
    .replace(/^(```|~~~)[\s\S]*?(?:^\1[ \t]*$|$(?![\s\S]))/gm, ' ')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/<[^>]+>/g, ' ')
    .replace(/^\s{0,3}(?:#{1,6}|>|[-*+]|\d+[.)])\s+/gm, '')
    .replace(/[*_`|]+/g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/**
 * Characters that a reader cannot see or that turn text around, drawn and named, so that a command reads as it runs.
 */
export function revealed(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    character => `‹U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`
  );
}

/** The first sentence, and what is left. */
export function firstSentence(text: string): [string, string] {
  const trimmed = text.trim();
  const end = /[.!?](?=\s)|\n/.exec(trimmed);
  if (!end) {
    return [trimmed.replace(/\.$/, ''), ''];
  }
  return [trimmed.slice(0, end.index), trimmed.slice(end.index + 1).trim()];
}

/** A sentence, with the point at its end that it may lack. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}
