import { screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TerminalState } from '../../ahp';
import { linesOf, printed } from '../printed';
import { browser, CHAT, leave, showChat } from './stage';

beforeEach(browser);
afterEach(leave);

const TERMINAL = 'ahp-terminal:/t';
const transcript = (): HTMLElement => screen.getByRole('log', { name: 'Transcript' });

describe('a command', () => {
  it('M5: shows its output as it comes, and stays open with how it ended', async () => {
    const { world, settle } = await showChat();
    const state: TerminalState = {
      title: 'make',
      content: [],
      lifecycle: { status: 'running' },
      claim: { kind: 'session', session: 'ahp-session:/s1', chat: CHAT },
      isPty: true
    };
    world.host.states.set(TERMINAL, state);
    const names = { turnId: 't1', toolCallId: 'call' };
    const block = { type: 'terminal', resource: TERMINAL, title: 'make', isPty: true } as const;
    world.host.emit(CHAT, {
      type: 'chat/turnStarted',
      turnId: 't1',
      startedAt: new Date().toISOString(),
      message: { text: '!make', origin: { kind: 'user' } }
    });
    world.host.emit(CHAT, {
      type: 'chat/toolCallStart',
      ...names,
      toolName: 'terminal',
      displayName: 'Terminal',
      _meta: { toolKind: 'terminal', 'jupyter-ahp.command': true }
    });
    world.host.emit(CHAT, {
      type: 'chat/toolCallReady',
      ...names,
      invocationMessage: 'Running make',
      toolInput: '{"command": "make"}',
      confirmed: 'not-needed'
    });
    world.host.emit(CHAT, { type: 'chat/toolCallContentChanged', ...names, content: [block] });
    await settle();
    world.host.emit(TERMINAL, { type: 'terminal/data', data: '\x1b[32mone\x1b[0m\r\n10%\r20%' });
    await settle();
    const output = () => within(transcript()).getByLabelText('Output').textContent;
    expect(output()).toBe('one\n20%');
    expect(within(transcript()).queryByLabelText('Input')).toBeNull(); // it stands above

    world.host.emit(TERMINAL, { type: 'terminal/data', data: '\r100%\n' });
    const result = { exitCode: 2, preview: 'one\n100%', truncated: true };
    world.host.emit(CHAT, {
      type: 'chat/toolCallComplete',
      ...names,
      result: {
        success: true,
        pastTenseMessage: 'Failed with exit code 2: make',
        content: [{ ...block, result }]
      }
    });
    world.host.emit(CHAT, { type: 'chat/turnComplete', turnId: 't1', duration: 5 });
    await settle();
    expect(output()).toBe('one\n100%');
    expect(transcript().textContent).toContain('exit 2');
    expect(transcript().textContent).toContain('The end of the output');
  });
});

describe('what was printed', () => {
  it.each([
    ['a\r\nb\r\n', 'a\nb'],
    ['\x1b[31mred\x1b[0m', 'red'],
    ['\x1b]0;title\x07x\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\', 'xlink'],
    ['10%\r50%\r100%\n', '100%'],
    ['long line\rshort\n', 'shortline'],
    ['ab\bc', 'ac'],
    ['\bx', 'x'],
    ['a\x1b[?1049hscreen', 'a'],
    ['cut \x1b[3', 'cut ']
  ])('%j reads %j', (output, text) => {
    expect(printed(output)).toBe(text);
  });

  it('has its colours and weights, and no others than the sixteen', () => {
    expect(
      linesOf('\x1b[31mred\x1b[1mb\x1b[22;39m x\n\x1b[38;5;2mg\x1b[38;5;200mp\x1b[0m.')
    ).toEqual([
      [
        { text: 'red', look: 'red' },
        { text: 'b', look: 'red bold' },
        { text: ' x', look: '' }
      ],
      [
        { text: 'g', look: 'green' },
        { text: 'p.', look: '' }
      ]
    ]);
    // written over: each letter as it was written last
    expect(linesOf('\x1b[32mold\x1b[0m\rne')).toEqual([
      [
        { text: 'ne', look: '' },
        { text: 'd', look: 'green' }
      ]
    ]);
  });
});
