import type { AnyModel } from '@anywidget/types';
import { describe, expect, it } from 'vitest';
import { CommSocket } from '../CommSocket';
import { clean, pageHost } from '../pageHost';
import { pageSocketUrl, routesOf } from '../routes';

class FakeModel {
  readonly sent: unknown[] = [];
  readonly traits: Record<string, unknown> = {};
  private readonly _listeners = new Map<string, Set<(...args: never[]) => void>>();

  get(name: string): unknown {
    return this.traits[name];
  }

  send(content: unknown): void {
    this.sent.push(content);
  }

  on(event: string, listener: (...args: never[]) => void): void {
    this._listeners.set(event, (this._listeners.get(event) ?? new Set()).add(listener));
  }

  off(event: string, listener: (...args: never[]) => void): void {
    this._listeners.get(event)?.delete(listener);
  }

  says(content: unknown): void {
    this._listeners
      .get('msg:custom')
      ?.forEach(listener => (listener as (content: unknown) => void)(content));
  }
}

const fake = (): { model: FakeModel; any: AnyModel } => {
  const model = new FakeModel();
  return { model, any: model as unknown as AnyModel };
};

describe('a socket through the kernel', () => {
  it('asks for itself, opens when it is there, and carries frames both ways', () => {
    const { model, any } = fake();
    const socket = new CommSocket(any);
    const { id } = model.sent[0] as { id: string };
    const heard: string[] = [];
    let opened = 0;
    socket.onopen = () => opened++;
    socket.onmessage = ({ data }) => heard.push(data);
    expect(model.sent).toEqual([{ type: 'open', id }]);
    expect(socket.readyState).toBe(0);
    model.says({ type: 'open', id });
    model.says({ type: 'frame', id: 'of another view', text: '{}' });
    model.says({ type: 'frame', id, text: '{"a":1}' });
    socket.send('{"b":2}');
    expect([opened, socket.readyState, heard]).toEqual([1, 1, ['{"a":1}']]);
    expect(model.sent.at(-1)).toEqual({ type: 'frame', id, text: '{"b":2}' });
  });

  it('ends once, with the reason, and hears nothing afterwards', () => {
    const { model, any } = fake();
    const socket = new CommSocket(any);
    const { id } = model.sent[0] as { id: string };
    const ends: unknown[] = [];
    const heard: string[] = [];
    socket.onclose = event => ends.push(event);
    socket.onmessage = ({ data }) => heard.push(data);
    model.says({ type: 'close', id, reason: 'No server' });
    model.says({ type: 'frame', id, text: 'late' });
    socket.close();
    expect(ends).toEqual([{ code: 1006, reason: 'No server' }]);
    expect(heard).toEqual([]);
    expect(() => socket.send('x')).toThrow(/closed/);
    expect(model.sent).toEqual([{ type: 'open', id }]);
  });
});

describe('the ways to a host', () => {
  const page = (config: unknown): Document => {
    const document = new DOMParser().parseFromString('<body></body>', 'text/html');
    const script = document.createElement('script');
    script.id = 'jupyter-config-data';
    script.type = 'application/json';
    script.textContent = typeof config === 'string' ? config : JSON.stringify(config);
    document.body.append(script);
    const location = new URL('https://hub.example/user/ana/lab');
    return {
      getElementById: (id: string) => document.getElementById(id),
      location
    } as unknown as Document;
  };

  it('lead to the server of the page, behind its prefix', () => {
    expect(pageSocketUrl(page({ baseUrl: '/user/ana/' }))).toBe('wss://hub.example/user/ana/ahp');
    expect(pageSocketUrl(page({ baseUrl: '/', wsUrl: 'ws://other.example/x/?t=1' }))).toBe(
      'ws://other.example/x/ahp'
    );
    expect(pageSocketUrl(page('not json'))).toBeUndefined();
  });

  it('go through the kernel last', () => {
    const { model, any } = fake();
    model.traits['ws_url'] = 'ws://127.0.0.1:8888/ahp';
    const kinds = (document: Document): string[] =>
      routesOf(any, document).map(route => route.kind);
    expect(kinds(page({ baseUrl: '/' }))).toEqual(['socket', 'socket', 'kernel']);
    model.traits['ws_url'] = '';
    expect(kinds(new DOMParser().parseFromString('', 'text/html'))).toEqual(['kernel']);
  });
});

describe('markdown on a page that is not JupyterLab', () => {
  it('runs nothing, asks for nothing and loads nothing', () => {
    expect(
      clean('<img src=x onerror="alert(1)"><script>1</script><form><input name="p"></form><b>x</b>')
    ).toBe('<a>x</a><b>x</b>');
    expect(clean('<a href="javascript:alert(1)">x</a>')).not.toContain('javascript');
  });

  it('is rendered, and its LaTeX left as it is', async () => {
    const element = await pageHost().renderMarkdown('**a** $x^2$');
    expect(element.innerHTML.trim()).toBe('<p><strong>a</strong> $x^2$</p>');
  });
});
