import { act, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CanvasState } from '../../ahp';
import type { World } from '../../ahp/__tests__/world';
import { frameAddress } from '../CanvasFrame';
import { browser, CHAT, leave, showChat } from './stage';

beforeEach(browser);
afterEach(leave);

const CANVAS = 'ahp-canvas:/Y2hhdA/1';

function canvas(more: Partial<CanvasState> = {}): CanvasState {
  return {
    instanceId: '1',
    extensionId: 'preview',
    canvasId: 'page',
    title: 'Rainfall',
    status: 'live',
    url: 'http://localhost:8888/ahp/canvas/secret',
    ...more
  };
}

function shown(state: CanvasState) {
  return showChat(
    { canvases: [{ resource: CANVAS }] },
    { set: (world: World) => world.host.states.set(CANVAS, state) }
  );
}

const section = (): HTMLElement => screen.getByRole('region', { name: /^Canvas: / });
const frame = (): HTMLIFrameElement | null => section().querySelector('iframe');

describe('a canvas', () => {
  it('V2 is its title, its status, and a frame that has no origin and no rights but its scripts', async () => {
    const { settle } = await shown(canvas());
    await settle();
    expect(within(section()).getByRole('heading', { level: 3 }).textContent).toBe('Rainfall');
    expect(section().textContent).toContain('live');
    expect(frame()?.getAttribute('sandbox')).toBe('allow-scripts');
    expect(frame()?.getAttribute('allow')).toBe('');
    expect(frame()?.getAttribute('referrerpolicy')).toBe('no-referrer');
    expect(frame()?.src).toBe('http://localhost:8888/ahp/canvas/secret');
    expect(frame()?.title).toBe('Rainfall');
  });

  it('V3 follows its state, and goes when it is closed', async () => {
    const { world, settle } = await shown(canvas());
    await settle();
    const next = canvas({ title: 'Sunshine', url: 'https://example.org/two' });
    world.host.emit(CANVAS, { type: 'canvas/stateChanged', canvas: next });
    await settle();
    expect(frame()?.src).toBe('https://example.org/two');
    expect(frame()?.title).toBe('Sunshine');
    world.host.emit(CHAT, { type: 'chat/canvasesChanged' });
    await settle();
    expect(screen.queryByRole('region', { name: /^Canvas: / })).toBeNull();
  });

  it.each([
    'javascript:alert(1)',
    'data:text/html,x',
    'blob:http://localhost/1',
    'file:///etc/passwd',
    '/lab',
    'nonsense'
  ])('is not drawn from %s', async url => {
    const { settle } = await shown(canvas({ url }));
    await settle();
    expect(frame()).toBeNull();
    expect(section().textContent).toContain('its address is none of the web');
    expect(frameAddress(url)).toBeUndefined();
  });

  it('without an address that can be reached is read, and kept from reaching anybody', async () => {
    const state = canvas();
    delete (state as { url?: string }).url;
    const { settle } = await showChat(
      { canvases: [{ resource: CANVAS }] },
      {
        set: world => {
          world.host.states.set(CANVAS, state);
          world.host.answers['resourceRead'] = () => ({
            result: {
              data: '<p title="a&b">Drawn</p>',
              encoding: 'utf-8',
              contentType: 'text/html'
            }
          });
        }
      }
    );
    await settle();
    await waitFor(() => expect(frame()).not.toBeNull());
    const around = new DOMParser().parseFromString(frame()?.srcdoc ?? '', 'text/html');
    const policy = around.querySelector('meta')?.getAttribute('content') ?? '';
    expect(policy).toMatch(/^default-src 'none';/);
    expect(policy).not.toMatch(/connect-src|frame-src|https?:/);
    const inner = around.querySelector('iframe');
    expect(inner?.getAttribute('sandbox')).toBe('allow-scripts');
    expect(inner?.getAttribute('srcdoc')).toBe(
      '<base href="about:srcdoc"><p title="a&b">Drawn</p>'
    );
    expect(frame()?.getAttribute('sandbox')).toBe('allow-scripts');
  });

  it('says so when the host has it no more', async () => {
    const { settle } = await showChat({ canvases: [{ resource: CANVAS }] });
    await settle();
    expect(section().textContent).toContain('This canvas was closed.');
  });

  it('is made higher and lower with the arrow keys, and folded', async () => {
    const { settle } = await shown(canvas());
    await settle();
    const grip = within(section()).getByRole('separator', { name: 'Height of the canvas' });
    const before = Number(grip.getAttribute('aria-valuenow'));
    fireEvent.keyDown(grip, { key: 'ArrowDown' });
    expect(frame()?.style.height).toBe(`${before + 16}px`);
    fireEvent.click(within(section()).getByRole('button', { name: 'Fold' }));
    expect(frame()).toBeNull();
    await act(async () => within(section()).getByRole('button', { name: 'Show here' }).click());
    expect(frame()?.style.height).toBe(`${before + 16}px`);
  });
});
