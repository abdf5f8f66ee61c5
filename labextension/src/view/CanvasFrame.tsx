import React, { type RefObject, useCallback, useEffect, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import { type CanvasState, isNotFound, type URI } from '../ahp';
import { useView } from './host';
import { useChannel, useSubscription } from './use';

/** The address that a frame may be given: of the web, and nothing else that a browser would do something with. */
export function frameAddress(url: string | undefined): string | undefined {
  if (!url) {
    return undefined;
  }
  try {
    const { protocol, href } = new URL(url);
    return protocol === 'https:' || protocol === 'http:' ? href : undefined;
  } catch {
    return undefined; // no absolute address
  }
}

export interface CanvasShown {
  readonly state: CanvasState | undefined;
  /** Whether it is closed for good. */
  readonly gone: boolean;
  /** For people: why there is nothing to see. */
  readonly problem: string | undefined;
}

/** A canvas as it is now (AHP 5.2). */
export function useCanvas(canvas: URI): CanvasShown {
  useSubscription(canvas);
  const state = useChannel<CanvasState, CanvasState | undefined>(canvas, view => view.state);
  const error = useChannel<CanvasState, Error | undefined>(canvas, view => view.error);
  const missing = useChannel<CanvasState, boolean>(canvas, view => view.status === 'missing');
  return { state, gone: missing || isNotFound(error), problem: error?.message };
}

/** What a page may do that comes without the headers of a server: draw, and run scripts that reach nobody. */
const POLICY =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob: data:; style-src 'unsafe-inline' blob: data:; " +
  "img-src data: blob:; font-src data: blob:; media-src data: blob:; worker-src blob: data:; form-action 'none'";
const AROUND =
  'html, body, iframe { margin: 0; border: 0; width: 100%; height: 100%; } iframe { display: block; }';

/**
 * The page with a frame around it, both under that policy. No policy of a page keeps it from leading its own frame to another
 * address, and from saying there what it holds; that of the frame around it does. `base`: or the links to its own parts would
 * be such addresses.
 */
function framed(page: string): string {
  const inner = `<base href="about:srcdoc">${page}`.replace(/&/g, '&amp;').replace(/"/g, '&quot;');
  return (
    `<!doctype html><meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>${AROUND}</style>` +
    `<iframe sandbox="allow-scripts" srcdoc="${inner}"></iframe>`
  );
}

/** The page itself, for who cannot reach the address of one, such as a widget that goes through its kernel. */
function usePage(canvas: URI, state: CanvasState | undefined): string | undefined {
  const { store } = useView();
  const [page, setPage] = useState<string>();
  const hidden = state !== undefined && !state.url;
  useEffect(() => {
    if (!hidden) {
      setPage(undefined);
      return;
    }
    let gone = false;
    store.resources
      .read(canvas)
      .then(blob => blob.text())
      .then(
        html => !gone && setPage(html),
        () => !gone && setPage(undefined) // it has none: what is said of a canvas without an address is right
      );
    return () => {
      gone = true;
    };
    // each state may be of another page
  }, [store, canvas, hidden, state]);
  return page;
}

/** Messages in one second over which a page does nothing but keep this one busy: nobody here listens to it. */
const FLOOD = 250;

/**
 * Whether the page in a frame sends so many messages that it has to go; `again` lets it try once more. A browser delivers
 * them all, whoever sends them and whoever listens, so that a flood would leave this page no time.
 */
function useFlood(frame: RefObject<HTMLIFrameElement>): [flooded: boolean, again: () => void] {
  const [flooded, setFlooded] = useState(false);
  useEffect(() => {
    if (flooded) {
      return;
    }
    let since = 0;
    let count = 0;
    const hear = (event: MessageEvent): void => {
      const page = frame.current?.contentWindow;
      if (!page || !isWithin(event.source as Window | null, page)) {
        return;
      }
      event.stopImmediatePropagation(); // whatever it says, it is not for what else is on this page
      const now = performance.now();
      if (now - since > 1000) {
        since = now;
        count = 0;
      }
      count += 1;
      if (count === FLOOD) {
        flushSync(() => setFlooded(true)); // later there may be no time
      }
    };
    window.addEventListener('message', hear, true);
    return () => window.removeEventListener('message', hear, true);
  }, [frame, flooded]);
  return [flooded, useCallback(() => setFlooded(false), [])];
}

/** Whether a window is that page, or in a frame of its own. */
function isWithin(source: Window | null, page: Window): boolean {
  for (let at = source; at; at = at.parent === at ? null : at.parent) {
    if (at === page) {
      return true;
    }
  }
  return false;
}

/**
 * A plugin's page, which nobody here has to trust: it may run its scripts, and has no origin. So it has no cookies and no
 * storage, reads nothing of this page or its server, opens nothing, asks nothing, sends no form and leads nowhere. It
 * is not told where it is shown.
 */
export function CanvasFrame(props: {
  uri: URI;
  canvas: CanvasShown;
  height?: number;
}): React.ReactElement {
  const { t } = useView().host.words;
  const { uri, canvas, height } = props;
  const { state, gone, problem } = canvas;
  const address = frameAddress(state?.url);
  const page = usePage(uri, gone ? undefined : state);
  const frame = useRef<HTMLIFrameElement>(null);
  const [flooded, again] = useFlood(frame);
  if (flooded && !gone) {
    return (
      <div className="ahp-CanvasGone" style={{ height }} role="alert">
        <p>
          <b>{t('This canvas was stopped.')}</b>{' '}
          {t('It sent so many messages that nothing else here had any time.')}
        </p>
        <div>
          <button type="button" className="ahp-Btn is-small" onClick={again}>
            {t('Show it again')}
          </button>
        </div>
      </div>
    );
  }
  if (gone || !state || !(address || page !== undefined)) {
    const words = gone
      ? t('This canvas was closed.')
      : problem
        ? t('This canvas cannot be shown. %1', problem)
        : !state
          ? t('Opening the canvas')
          : state.url
            ? t('This canvas cannot be shown: its address is none of the web.')
            : t('There is nothing to see at the moment: what draws here is not there.');
    return (
      <div className="ahp-CanvasGone" style={{ height }} role="note">
        {words}
      </div>
    );
  }
  return (
    <iframe
      ref={frame}
      className="ahp-CanvasFrame"
      style={{ height }}
      title={state.title || t('Canvas')}
      {...(address ? { src: address } : { srcDoc: framed(page ?? '') })}
      sandbox="allow-scripts"
      allow=""
      referrerPolicy="no-referrer"
      loading="lazy"
    />
  );
}
