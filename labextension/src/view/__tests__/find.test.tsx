import { act, fireEvent, screen } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hitsIn, rangesIn } from '../finding';
import { browser, CHAT, leave, showChat, turn } from './stage';

beforeEach(() => {
  browser();
  // jsdom has no names to escape
  (globalThis as { CSS?: object }).CSS = { escape: (name: string) => name };
});
afterEach(() => {
  delete (globalThis as { CSS?: object }).CSS;
  leave();
});

const log = (): HTMLElement => screen.getByRole('log', { name: 'Transcript' });
const settled = (): Promise<void> => act(() => new Promise<void>(done => setTimeout(done, 200)));

describe('finding in a chat', () => {
  it('counts what people and agents said, in any case', () => {
    const turns = [
      turn('t1', 'Rain and rain', 'It RAINS.'),
      turn('t2', 'Sun', 'Warm.'),
      turn('t3', 'More', 'rain')
    ];
    expect(hitsIn({ turns }, 'rain')).toEqual([
      { turn: 't1', index: 0 },
      { turn: 't1', index: 1 },
      { turn: 't1', index: 2 },
      { turn: 't3', index: 0 }
    ]);
    expect(hitsIn({ turns }, '')).toEqual([]);
  });

  it('knows where the words stand, but not in what readers alone see', () => {
    const element = document.createElement('div');
    element.innerHTML = '<h2 class="ahp-sr">Rain</h2><p>Rain, <b>raining</b></p>';
    expect(rangesIn(element, 'rain').map(range => range.toString())).toEqual(['Rain', 'rain']);
  });

  it('opens with Ctrl F in the transcript, loads what is not there, goes from one to the other, and closes', async () => {
    const older = [turn('t0', 'The first rain', 'Noted.')];
    let asked = 0;
    const { settle } = await showChat(
      { turns: [turn('t1', 'rain', 'Yes'), turn('t2', 'sun', 'rain again')], turnsNextCursor: 'c' },
      {
        set: world =>
          (world.host.answers['fetchTurns'] = () => {
            asked += 1;
            world.host.emit(CHAT, { type: 'chat/turnsLoaded', turns: older });
            return { result: {} };
          })
      }
    );
    log().focus();
    fireEvent.keyDown(log(), { key: 'f', code: 'KeyF', ctrlKey: true });
    const field = screen.getByRole('textbox', { name: 'Find in this chat' });
    expect(document.activeElement).toBe(field);
    fireEvent.change(field, { target: { value: 'RAIN' } });
    await settled();
    await settle();
    await settle();
    expect(asked).toBeGreaterThan(0);
    const bar = screen.getByRole('search');
    expect(bar.textContent).toContain('3 of 3'); // the newest first
    fireEvent.keyDown(field, { key: 'Enter' });
    fireEvent.keyDown(field, { key: 'Enter' });
    expect(bar.textContent).toContain('1 of 3');
    fireEvent.keyDown(field, { key: 'Enter', shiftKey: true });
    expect(bar.textContent).toContain('2 of 3');
    fireEvent.change(field, { target: { value: 'hail' } });
    await settled();
    expect(bar.textContent).toContain('Not found');
    fireEvent.keyDown(field, { key: 'Escape' });
    expect(screen.queryByRole('search')).toBeNull();
    expect(document.activeElement).toBe(log());
  });
});
