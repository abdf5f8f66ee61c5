import { beforeEach, describe, expect, it } from 'vitest';
import { Status, type SessionSummary } from '../../ahp';
import { goToNext, type Face } from '../needs';

beforeEach(() => {
  document.body.innerHTML = '';
  Element.prototype.scrollIntoView = () => undefined;
});

const at = '2026-12-01T10:00:00.000Z';

function session(id: string, needs = true): SessionSummary {
  return {
    resource: `ahp-session:/${id}`,
    provider: 'assistant',
    title: id,
    status: needs ? Status.InputNeeded : Status.Idle,
    createdAt: at,
    modifiedAt: at,
    defaultChat: `ahp-chat:/${id}`
  };
}

function face(id: string, cards: number): Face {
  const node = document.createElement('div');
  node.innerHTML = Array.from(
    { length: cards },
    (_, card) => `<section class="ahp-Card is-ask" tabindex="-1" id="${id}${card}"></section>`
  ).join('');
  document.body.append(node);
  return { node, session: `ahp-session:/${id}` };
}

const focus = (): string | undefined => document.activeElement?.id;

describe('going to what needs one', () => {
  it('goes through the cards of a chat, then through the other sessions, and round about', () => {
    const faces = [face('a', 2), face('b', 1)];
    const items = [session('a'), session('idle', false), session('b'), session('c')];
    const opened: string[] = [];
    const next = (): string | undefined => {
      goToNext(faces, items, ({ chat }) => {
        opened.push(chat);
        const made = face('c', 1);
        faces.push(made);
        return made.node;
      });
      return focus();
    };
    expect([next(), next(), next()]).toEqual(['a0', 'a1', 'b0']);
    expect(opened).toEqual([]);
    expect(next()).toBe('c0');
    expect(opened).toEqual(['ahp-chat:/c']);
    expect([next(), next()]).toEqual(['a0', 'a1']);
  });

  it('waits for the card of a chat that is being opened', async () => {
    const node = document.createElement('div');
    document.body.append(node);
    goToNext([], [session('a')], () => node);
    node.innerHTML = '<section class="ahp-Card is-question" tabindex="-1" id="late"></section>';
    await new Promise(settled => setTimeout(settled));
    expect(focus()).toBe('late');
  });

  it('goes round the cards of the one chat that needs somebody, known to the list or not', () => {
    for (const items of [[session('a')], []]) {
      document.body.innerHTML = '';
      const faces = [face('a', 2)];
      const seen = [1, 2, 3].map(() => {
        goToNext(faces, items, () => undefined);
        return focus();
      });
      expect(seen).toEqual(['a0', 'a1', 'a0']);
    }
  });
});
