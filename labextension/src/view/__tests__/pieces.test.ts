import { describe, expect, it } from 'vitest';
import { REDUCERS, type ChatAction, type ChatState } from '../../ahp';
import { Narrator } from '../Announcer';
import { isComposing } from '../Composer';
import { bytes, duration, tokens, when } from '../format';
import { dollars } from '../markdown/math';
import { isAtEnd } from '../stick';
import { firstSentence, revealed, spoken } from '../text';
import { english, wordsOf } from '../words';
import { chatState } from './stage';

describe('words', () => {
  it('fills in arguments, and says one or many', () => {
    expect(english.t('%1 of %2', 'a', 2)).toBe('a of 2');
    expect(english.t('100 % of %3', 'a')).toBe('100 % of %3');
    expect([1, 2].map(count => english.n('%1 turn', '%1 turns', count))).toEqual([
      '1 turn',
      '2 turns'
    ]);
  });

  it('come from the bundle of the place', () => {
    const words = wordsOf({
      __: (text, ...args) => `de(${text}|${args.join()})`,
      _n: (one, many, count, ...args) => `${count === 1 ? one : many}|${args.join()}`
    });
    expect(words.t('Stop %1', 1)).toBe('de(Stop %1|1)');
    expect(words.n('one', 'many', 3)).toBe('many|3');
  });

  it('say times and sizes as people do', () => {
    expect([40, 300, 8000, 59_600, 72_000, 7_500_000].map(ms => duration(ms, english))).toEqual([
      '0.1 s',
      '0.3 s',
      '8 s',
      '1 min 0 s',
      '1 min 12 s',
      '2 h 5 min'
    ]);
    expect([812, 12_400, 999_999, 1_234_567].map(tokens)).toEqual(['812', '12.4k', '1.0M', '1.2M']);
    expect([812, 4_100_000, 40e9].map(bytes)).toEqual(['812 B', '4.1 MB', '40 GB']);
    const now = new Date(2026, 11, 1, 12, 0);
    const ago = (minutes: number): string =>
      when(new Date(now.getTime() - minutes * 60_000), now, english, 'en-GB');
    expect([0.5, 4, 90, 60 * 26, 60 * 24 * 19].map(ago)).toEqual([
      'now',
      '4 min',
      '10:30',
      'Monday',
      '12 Nov'
    ]);
  });
});

describe('text', () => {
  it('is read out without its marks, and without code', () => {
    expect(spoken('# So\n\nIt is **0.74**, see [this](https://x.y).\n```py\nx = 1\n```\n- a')).toBe(
      'So It is 0.74, see this. a'
    );
  });

  it('shows what cannot be seen', () => {
    expect(revealed('a\u202eb\u200b\nc\td')).toBe('a‹U+202E›b‹U+200B›\nc\td');
  });

  it('has a first sentence', () => {
    expect(firstSentence('The server is busy. Nothing was lost.')).toEqual([
      'The server is busy',
      'Nothing was lost.'
    ]);
    expect(firstSentence('gpt-5.1 at 127.0.0.1 failed')).toEqual([
      'gpt-5.1 at 127.0.0.1 failed',
      ''
    ]);
  });

  it('has its mathematics in dollars, but not in code', () => {
    expect(dollars('\\( x \\) and \\[y\\] and `\\(z\\)`')).toBe('$x$ and $$y$$ and `\\(z\\)`');
  });
});

describe('the composer and the log', () => {
  it('know when a key belongs to an input method', () => {
    expect(
      [{ isComposing: true }, { keyCode: 229 }, { keyCode: 13, isComposing: false }].map(
        isComposing
      )
    ).toEqual([true, true, false]);
  });

  it('know when the reader is at the end', () => {
    expect(isAtEnd({ scrollHeight: 1000, scrollTop: 590, clientHeight: 400 })).toBe(true);
    expect(isAtEnd({ scrollHeight: 1000, scrollTop: 500, clientHeight: 400 })).toBe(false);
  });
});

describe('the narrator', () => {
  const reduce = (state: ChatState, ...actions: ChatAction[]): ChatState =>
    actions.reduce((before, action) => REDUCERS.chat(before, action), state);
  const begin: ChatAction = {
    type: 'chat/turnStarted',
    turnId: 't',
    startedAt: '2026-12-01T10:00:00.000Z',
    message: { text: 'hi', origin: { kind: 'user' } }
  };
  const part: ChatAction = {
    type: 'chat/responsePart',
    turnId: 't',
    part: { kind: 'markdown', id: 'p', content: '' }
  };
  const say = (content: string): ChatAction => ({
    type: 'chat/delta',
    turnId: 't',
    partId: 'p',
    content
  });

  it('says whole sentences, each change of state once, and no code', () => {
    const narrator = new Narrator(english);
    let state = chatState();
    const hear = (...actions: ChatAction[]): string | undefined => {
      state = reduce(state, ...actions);
      narrator.hear(state);
      return narrator.next();
    };
    expect(hear()).toBeUndefined();
    expect(hear(begin)).toBe('The agent works on it.');
    expect(hear(part, say('It is **so'))).toBeUndefined();
    expect(hear(say('**. And'))).toBe('It is so.');
    expect(hear(say(' then '))).toBeUndefined();
    expect(hear(say('code:\n```py\nx. y. z\n'))).toBeUndefined();
    expect(hear(say('```\n\nEnd'))).toBe('And then code:');
    expect(hear({ type: 'chat/turnComplete', turnId: 't', duration: 1 })).toBe(
      'End The answer is complete.'
    );
    expect(hear()).toBeUndefined();
  });

  it('says what failed, and does not tell what was there before', () => {
    const narrator = new Narrator(english);
    const running = reduce(chatState(), begin, part, say('Old words. '));
    narrator.hear(running);
    expect(narrator.next()).toBeUndefined();
    narrator.hear(
      reduce(running, {
        type: 'chat/error',
        turnId: 't',
        duration: 1,
        part: { kind: 'error', error: { errorType: 'x', message: 'The server is busy.' } }
      })
    );
    expect(narrator.next()).toBe('The turn failed. The server is busy.');
  });

  it('takes its time with much text', () => {
    const narrator = new Narrator(english);
    let state = reduce(chatState());
    narrator.hear(state);
    state = reduce(state, begin, part, say('word '.repeat(200) + 'end. '));
    narrator.hear(state);
    const said: string[] = [];
    for (let next = narrator.next(); next !== undefined; next = narrator.next()) {
      said.push(next);
    }
    expect(said.length).toBeGreaterThan(2);
    expect(said.every(each => each.length <= 400)).toBe(true);
    expect(said.join(' ')).toBe(`The agent works on it. ${'word '.repeat(200)}end.`);
  });
});
