import type { AnyModel } from '@anywidget/types';
import type { OpenSocket, SocketLike } from '../ahp';
import { CommSocket } from './CommSocket';

/** One way to the host. */
export interface Route {
  readonly kind: 'socket' | 'kernel';
  readonly open: OpenSocket;
}

const PATIENCE_MS = 4000;

/** The address of the host of the server that this page is from, if a Jupyter server made the page. */
export function pageSocketUrl(page: Document): string | undefined {
  const text = page.getElementById('jupyter-config-data')?.textContent;
  if (!text) {
    return undefined;
  }
  try {
    const { baseUrl, wsUrl } = JSON.parse(text) as { baseUrl?: string; wsUrl?: string };
    const base = new URL(wsUrl || baseUrl || '/', page.location.href);
    base.protocol = base.protocol.replace('http', 'ws');
    base.search = '';
    base.pathname = `${base.pathname.replace(/\/+$/, '')}/ahp`;
    return base.href;
  } catch {
    return undefined; // not what a Jupyter server writes: as good as none
  }
}

/** A socket that is open, or an error: a page that cannot reach a server must not wait for it for long. */
function reach(url: string): Promise<SocketLike> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    const timer = setTimeout(() => {
      socket.close();
      reject(new Error('The server did not answer'));
    }, PATIENCE_MS);
    socket.onopen = () => {
      clearTimeout(timer);
      resolve(socket);
    };
    socket.onclose = () => {
      clearTimeout(timer);
      reject(new Error('The server cannot be reached from this page'));
    };
  });
}

/** The ways to try, best first: what goes through the kernel waits while a cell runs. */
export function routesOf(model: AnyModel, page: Document): readonly Route[] {
  const urls = new Set(
    [pageSocketUrl(page), model.get('ws_url') as string].filter(Boolean) as string[]
  );
  return [
    ...[...urls].map((url): Route => ({ kind: 'socket', open: () => reach(url) })),
    { kind: 'kernel', open: () => new CommSocket(model) }
  ];
}
