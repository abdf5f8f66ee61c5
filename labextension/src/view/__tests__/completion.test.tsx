import { act, fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CompletionItem, TextRange } from '../../ahp';
import { wordAt } from '../completion';
import { attachmentsIn, referencesOf } from '../references';
import { browser, leave, showChat, type Stage, turn } from './stage';

beforeEach(browser);
afterEach(leave);

const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });
const list = (): HTMLElement | null => screen.queryByRole('listbox', { name: 'Suggestions' });
const options = (): string[] =>
  screen.queryAllByRole('option').map(each => each.textContent!.trim());
const marked = (): string | undefined =>
  screen
    .queryAllByRole('option')
    .find(each => each.getAttribute('aria-selected') === 'true')
    ?.textContent?.trim();
const press = (key: string, more: object = {}): boolean =>
  fireEvent.keyDown(box(), { key, ...more });

function file(path: string, start = 0, end = start + 1): CompletionItem {
  return {
    insertText: `@${path} `,
    rangeStart: start,
    rangeEnd: end,
    attachment: {
      type: 'resource',
      uri: `file:///project/${path}`,
      label: path.replace(/.*\/(?=.)/, ''),
      displayKind: path.endsWith('/') ? 'directory' : 'document',
      _meta: { 'jupyter-ahp.path': path }
    }
  };
}

function chat(title: string, start = 0, end = start + 1): CompletionItem {
  return {
    insertText: `#chat:${title} `,
    rangeStart: start,
    rangeEnd: end,
    attachment: { type: 'chat', resource: `ahp-chat:/${title}`, endTurn: 't1', label: title }
  };
}

/** On the first line. */
function range(start: number, end: number): TextRange {
  return { start: { line: 0, character: start }, end: { line: 0, character: end } };
}

interface Asked {
  text: string;
  offset: number;
}

/** A chat whose host answers so; what it was asked. */
async function offering(
  answer: (asked: Asked) => CompletionItem[] | null
): Promise<Stage & { asked: Asked[] }> {
  const asked: Asked[] = [];
  const stage = await showChat(
    { turns: [turn('t0', 'before', 'An answer.')] },
    {
      set: world => {
        world.host.answers['completions'] = params => {
          const { text, offset } = params as unknown as Asked;
          asked.push({ text, offset });
          const items = answer({ text, offset });
          return items && { result: { items } };
        };
      }
    }
  );
  act(() => box().focus());
  return { ...stage, asked };
}

async function type(stage: Stage, text: string, caret = text.length): Promise<void> {
  const target = { value: text, selectionStart: caret, selectionEnd: caret };
  fireEvent.change(box(), { target });
  await settled(stage);
}

async function settled(stage: Stage): Promise<void> {
  await act(() => new Promise(resolve => setTimeout(resolve, 100)));
  await stage.settle();
}

const plots = ({ text, offset }: Asked): CompletionItem[] =>
  text.slice(0, offset).includes('@')
    ? [file('src/plots.py', text.indexOf('@'), offset), file('src/', text.indexOf('@'), offset)]
    : [];

describe('suggestions', () => {
  it('come for a word that begins with a trigger, once the typing pauses', async () => {
    const stage = await offering(plots);
    fireEvent.change(box(), { target: { value: 'see @' } });
    fireEvent.change(box(), { target: { value: 'see @p' } });
    await type(stage, 'see @pl');
    expect(stage.asked).toEqual([{ text: 'see @pl', offset: 7 }]);
    expect(options()).toEqual(['plots.py src', 'src/']);
    await type(stage, 'see @pl and');
    expect(list()).toBeNull();
    expect(stage.asked).toHaveLength(1);
  });

  it.each(['a@b', 'plain words', '!git log @', ''])('do not come for %j', async text => {
    const stage = await offering(plots);
    await type(stage, text);
    expect(stage.asked).toEqual([]);
    expect(list()).toBeNull();
  });

  it('leave Enter and Tab alone behind a trigger by itself', async () => {
    const stage = await offering(plots);
    await type(stage, '@');
    expect(options()).toHaveLength(2);
    expect(marked()).toBeUndefined();
    expect(box().getAttribute('aria-activedescendant')).toBeNull();
    expect(press('Tab')).toBe(true);
    press('Enter');
    await stage.settle();
    expect(stage.sent('chat/turnStarted').map(action => action['message'])).toEqual([
      { text: '@', origin: { kind: 'user' } }
    ]);
  });

  it.each(['Enter', 'Tab'])('give the marked one to %s, as words and an attachment', async key => {
    const stage = await offering(plots);
    await type(stage, 'see @pl');
    expect(marked()).toBe('plots.py src');
    expect(press(key)).toBe(false);
    await settled(stage);
    expect(box().value).toBe('see @src/plots.py ');
    expect(box().selectionStart).toBe(18);
    expect(list()).toBeNull();
    expect(stage.asked).toHaveLength(1);
    expect(screen.getByRole('list', { name: '1 attachment' }).textContent).toContain('plots.py');

    fireEvent.change(box(), { target: { value: 'see @src/plots.py, please' } });
    press('Enter');
    await stage.settle();
    const [{ message }] = stage.sent('chat/turnStarted') as { message?: unknown }[];
    expect(message).toEqual({
      text: 'see @src/plots.py, please',
      origin: { kind: 'user' },
      attachments: [{ ...file('src/plots.py').attachment, range: range(4, 17) }]
    });
    expect(screen.queryByRole('button', { name: 'Remove plots.py' })).toBeNull();
  });

  it('are chosen with the arrows, around, and with the pointer', async () => {
    const stage = await offering(plots);
    await type(stage, '@');
    press('ArrowUp');
    expect(marked()).toBe('src/');
    press('ArrowDown');
    expect(marked()).toBe('plots.py src');
    const at = screen.getByRole('option', { selected: true });
    expect(box().getAttribute('aria-activedescendant')).toBe(at.id);
    expect(press('ArrowDown', { shiftKey: true })).toBe(true);
    expect(fireEvent.mouseDown(at)).toBe(false);
    fireEvent.click(at);
    await stage.settle();
    expect(box().value).toBe('@src/plots.py ');
  });

  it('are named for readers, and the box is no combobox', async () => {
    const stage = await offering(() => [chat('Plots'), file('plots.py')]);
    expect(box().getAttribute('aria-controls')).toBeNull();
    await type(stage, '#p');
    expect(box().getAttribute('role')).toBeNull();
    expect(box().getAttribute('aria-autocomplete')).toBe('list');
    expect(box().getAttribute('aria-controls')).toBe(list()!.id);
    const groups = within(list()!).getAllByRole('group');
    expect(
      groups.map(
        group => document.getElementById(group.getAttribute('aria-labelledby')!)!.textContent
      )
    ).toEqual(['Chats', 'Files']);
    expect(list()!.querySelector('mark')!.textContent).toBe('P');
  });

  it('are the first few of each kind, until more is typed', async () => {
    const many = ['a', 'b', 'c', 'd', 'e'];
    const stage = await offering(() => [
      ...many.map(each => chat(each)),
      ...many.map(each => file(each))
    ]);
    await type(stage, '#');
    expect(options()).toEqual(['a', 'b', 'c', 'a', 'b', 'c']);
    await type(stage, '#c');
    expect(options()).toHaveLength(10);
  });

  it('close with Esc, keep the text, and stay closed for that word', async () => {
    const stage = await offering(plots);
    await type(stage, 'see @pl');
    const above = vi.fn();
    document.body.addEventListener('keydown', above);
    expect(press('Escape')).toBe(false);
    document.body.removeEventListener('keydown', above);
    expect(list()).toBeNull();
    expect(box().value).toBe('see @pl');
    await type(stage, 'see @plo');
    expect(stage.asked).toHaveLength(1);
    expect(press('Escape'), 'the next one is not theirs').toBe(true);
    await type(stage, 'see @plo @');
    expect(stage.asked).toHaveLength(2);
  });

  it('close when the cursor goes elsewhere, or the box is left', async () => {
    const stage = await offering(plots);
    await type(stage, 'see @pl');
    box().setSelectionRange(1, 1);
    fireEvent.keyUp(box(), { key: 'Home' });
    expect(list()).toBeNull();
    await type(stage, 'see @plo');
    expect(list()).not.toBeNull();
    fireEvent.blur(box());
    expect(list()).toBeNull();
  });

  it('are dropped when they come for what is not typed any more', async () => {
    const late: ((items: CompletionItem[]) => void)[] = [];
    const stage = await offering(() => null);
    stage.world.host.answers['completions'] = (params, socket) => {
      const id = socket.sent[socket.sent.length - 1]['id'] as number;
      void params;
      late.push(items => socket.deliver({ jsonrpc: '2.0', id, result: { items } }));
      return null;
    };
    await type(stage, '@a');
    await type(stage, '@ab');
    expect(late).toHaveLength(2);
    await act(async () => late[1]([file('ab', 0, 3)]));
    await act(async () => late[0]([file('a', 0, 2)]));
    await stage.settle();
    expect(options()).toEqual(['ab']);
  });

  it('are not taken by Enter while they are for less than what is typed', async () => {
    const stage = await offering(plots);
    await type(stage, '@pl');
    expect(marked()).toBe('plots.py src');
    fireEvent.change(box(), { target: { value: '@pla' } });
    expect(options()).toHaveLength(2);
    expect(marked()).toBeUndefined();
    press('Enter');
    await stage.settle();
    expect(stage.sent('chat/turnStarted')).toHaveLength(1);
  });

  it('leave an input method alone while it composes', async () => {
    const stage = await offering(plots);
    await type(stage, '@pl');
    expect(press('Enter', { isComposing: true })).toBe(true);
    expect(press('Enter', { keyCode: 229 })).toBe(true);
    expect(box().value).toBe('@pl');
    fireEvent.compositionEnd(box());
    await settled(stage);
    expect(stage.asked).toHaveLength(2);
  });

  it('are silent when the host cannot say', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const stage = await showChat();
    act(() => box().focus());
    await type(stage, '@pl');
    expect(list()).toBeNull();
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });

  it('replace what stands there, and no more', async () => {
    const stage = await offering(({ text }) => [file('src/plots.py', 4, text.indexOf('@') + 3)]);
    await type(stage, 'see @pl, please', 7);
    press('Enter');
    await stage.settle();
    expect(box().value).toBe('see @src/plots.py , please');
  });
});

describe('what is attached', () => {
  it('goes with the draft, and with its words', async () => {
    const stage = await offering(plots);
    await type(stage, '@pl');
    press('Tab');
    await act(() => new Promise(resolve => setTimeout(resolve, 450)));
    await stage.settle();
    const attachments = [{ ...file('src/plots.py').attachment, range: range(0, 13) }];
    expect(stage.sent('chat/draftChanged').pop()).toEqual({
      type: 'chat/draftChanged',
      draft: { text: '@src/plots.py ', origin: { kind: 'user' }, attachments }
    });
    fireEvent.change(box(), { target: { value: '@src/plots.p' } });
    expect(screen.queryByRole('list', { name: '1 attachment' })).toBeNull();
    fireEvent.change(box(), { target: { value: 'in @src/plots.py' } });
    expect(screen.getByRole('list', { name: '1 attachment' })).toBeTruthy();
  });

  it('can be taken off, and its words stay', async () => {
    const stage = await offering(plots);
    await type(stage, '@pl');
    press('Tab');
    await stage.settle();
    fireEvent.click(screen.getByRole('button', { name: 'Remove plots.py' }));
    expect(screen.queryByRole('button', { name: 'Remove plots.py' })).toBeNull();
    press('Enter');
    await stage.settle();
    expect(stage.sent('chat/turnStarted').map(action => action['message'])).toEqual([
      { text: '@src/plots.py', origin: { kind: 'user' } }
    ]);
  });

  it('is there again when the chat is opened, and when the message is not taken', async () => {
    const attachments = [{ ...file('a.csv').attachment, range: range(0, 6) }];
    const stage = await showChat(
      { draft: { text: '@a.csv now', origin: { kind: 'user' }, attachments } },
      {
        set: world =>
          (world.host.refuses = (_, { type: kind }) =>
            kind === 'chat/turnStarted' ? 'Not now.' : undefined)
      }
    );
    expect(box().value).toBe('@a.csv now');
    press('Enter');
    await stage.settle();
    expect(stage.sent('chat/turnStarted')).toHaveLength(1);
    expect(box().value).toBe('@a.csv now');
    expect(screen.getByRole('button', { name: 'Remove a.csv' })).toBeTruthy();
  });
});

describe('a draft that the host does not keep', () => {
  it('stays in the box', async () => {
    const stage = await showChat(
      { draft: { text: 'older', origin: { kind: 'user' } } },
      {
        set: world =>
          (world.host.refuses = (_, { type: kind }) =>
            kind === 'chat/draftChanged' ? 'You may only read here.' : undefined)
      }
    );
    expect(box().value).toBe('older');
    fireEvent.change(box(), { target: { value: 'newer' } });
    await act(() => new Promise(resolve => setTimeout(resolve, 450)));
    await act(async () => stage.world.frame()); // it is shown as kept, until the answer comes
    await stage.settle();
    expect(stage.sent('chat/draftChanged')).toHaveLength(1);
    expect(box().value).toBe('newer');
  });
});

describe('the word under the cursor', () => {
  it.each([
    ['@', 1, 0],
    ['see @pl', 7, 4],
    ['see @pl', 3, -1],
    ['see @pl ', 8, -1],
    ['a@b', 3, -1],
    ['/compact', 8, 0],
    ['x\n#chat:y', 9, 2],
    ['see @"two words', 15, 4],
    ['see @"two words" and', 20, -1],
    ['', 0, -1]
  ])('of %j at %d begins at %d', (text, caret, start) => {
    expect(wordAt(text, caret, ['@', '#', '/'])).toBe(start);
  });
});

describe('references', () => {
  const [folder, plot] = [file('src/'), file('src/plots.py')].map(({ attachment, insertText }) => ({
    mark: insertText.trimEnd(),
    attachment
  }));
  const ranges = (text: string, ...references: (typeof plot)[]) =>
    attachmentsIn(text, references).map(({ label, range: at }) => [
      label,
      at?.start.character,
      at?.end.character
    ]);

  it('hold where their words stand', () => {
    expect(ranges('@src/plots.py and @src/', folder, plot)).toEqual([
      ['src/', 18, 23],
      ['plots.py', 0, 13]
    ]);
    expect(ranges('@src/plots.py', folder, plot)).toEqual([['plots.py', 0, 13]]);
    expect(ranges('x@src/plots.py', plot)).toEqual([]);
    expect(ranges('@src/plots.py @src/plots.py', plot, { ...plot })).toHaveLength(2);
    expect(ranges('anything', { ...plot, mark: '' })).toEqual([['plots.py', undefined, undefined]]);
  });

  it('come back from a message', () => {
    const text = 'see\n\nhere 𝒳 @src/plots.py';
    const attachments = attachmentsIn(text, [plot]);
    expect(attachments[0].range).toEqual({
      start: { line: 2, character: 8 },
      end: { line: 2, character: 21 }
    });
    expect(referencesOf({ text, attachments }).map(({ mark }) => mark)).toEqual(['@src/plots.py']);
    expect(attachmentsIn(text, referencesOf({ text, attachments }))).toEqual(attachments);
  });
});
