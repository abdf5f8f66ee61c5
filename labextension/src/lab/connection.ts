import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { AhpConnection, AhpStore, browserWake, HandshakeRefused, type OpenSocket } from '../ahp';

/**
 * The way to the host of the server that this page is from. Address and token are looked up at each try. The page's
 * cookie says who one is; the token goes along only where there is no cookie to send.
 */
export function openSocket(noHost: string): OpenSocket {
  let tries = 0;
  return async () => {
    const settings = ServerConnection.makeSettings();
    if (tries++ > 0 && (await isMissing(settings))) {
      throw new HandshakeRefused(noHost);
    }
    const url = new URL(URLExt.join(settings.wsUrl, 'ahp'));
    if (settings.appendToken && settings.token) {
      url.searchParams.set('token', settings.token);
    }
    return new settings.WebSocket(url.href);
  };
}

/** Whether the server answers, and has no such extension (JupyterLite, or an installation without it). */
async function isMissing(settings: ServerConnection.ISettings): Promise<boolean> {
  try {
    const url = URLExt.join(settings.baseUrl, 'ahp', 'status');
    const response = await ServerConnection.makeRequest(url, { method: 'GET' }, settings);
    return response.status === 404;
  } catch {
    return false; // no answer at all: the server is away, and the next try will tell
  }
}

/** The page's one store; it connects when somebody first looks at it. */
export class LazyStore {
  private _store: AhpStore | undefined;

  constructor(
    private readonly _noHost: string,
    private readonly _locale: string | undefined
  ) {}

  get = (): AhpStore => {
    if (!this._store) {
      const connection = new AhpConnection({
        open: openSocket(this._noHost),
        clientInfo: { name: 'jupyter-ahp-lab', title: 'JupyterLab' },
        locale: this._locale,
        wake: browserWake(window, document)
      });
      this._store = new AhpStore(connection);
      connection.start();
    }
    return this._store;
  };
}
