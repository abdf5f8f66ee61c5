import type { ChatState, ResponsePart, Turn } from '../ahp';
import { steeringOf } from '../ahp';
import { textOf } from './text';

/** A place in a chat that has what is looked for. */
export interface Hit {
  readonly turn: string;
  /** Which of the places in its turn, from 0. */
  readonly index: number;
}

/** The turns that have it, oldest first, each as often as it has it. Case is no matter. */
export function hitsIn(state: Pick<ChatState, 'turns' | 'activeTurn'>, wanted: string): Hit[] {
  const word = wanted.toLocaleLowerCase();
  if (!word) {
    return [];
  }
  const turns = [...(state.turns ?? []), ...(state.activeTurn ? [state.activeTurn] : [])];
  return turns.flatMap(turn =>
    Array.from({ length: count(said(turn).toLocaleLowerCase(), word) }, (_, index) => ({
      turn: turn.id,
      index
    }))
  );
}

function count(text: string, word: string): number {
  let found = 0;
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
    found += 1;
  }
  return found;
}

/** What is said in a turn, by people and by the agent. */
function said({ message, responseParts }: Pick<Turn, 'message' | 'responseParts'>): string {
  return [message.text, ...responseParts.map(saidIn)].join('\n');
}

function saidIn(part: ResponsePart): string {
  switch (part.kind) {
    case 'markdown':
      return part.content;
    case 'systemNotification':
      return steeringOf(part)?.text ?? textOf(part.content);
    case 'error':
      return part.error.message;
    case 'toolCall': {
      const { toolCall: call } = part;
      const input = 'toolInput' in call && typeof call.toolInput === 'string' ? call.toolInput : '';
      return `${call.displayName} ${input}`;
    }
    default:
      return '';
  }
}

/** The places in what is drawn of a turn. Where the words are folded away, there are fewer than there are hits. */
export function rangesIn(element: Element, wanted: string): Range[] {
  const word = wanted.toLocaleLowerCase();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT, node =>
    node.parentElement?.closest('.ahp-sr, .ahp-TurnEnd')
      ? NodeFilter.FILTER_REJECT
      : NodeFilter.FILTER_ACCEPT
  );
  const ranges: Range[] = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = (node.nodeValue ?? '').toLocaleLowerCase();
    for (let at = text.indexOf(word); word && at >= 0; at = text.indexOf(word, at + word.length)) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + word.length, node.nodeValue!.length));
      ranges.push(range);
    }
  }
  return ranges;
}
