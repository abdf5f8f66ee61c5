/**
 * Channel URIs. They are opaque: what is read off one is only which kind of state is behind it.
 * A session may be named by its provider's scheme (`copilotcli:/<id>`) instead of `ahp-session:`.
 */

import { uuid } from './ids';
import type { ChannelKind, URI } from './types';

export const ROOT: URI = 'ahp-root://';

const WELL_FORMED = /^([A-Za-z][A-Za-z0-9+.-]*):([^\s\p{Cc}]*)$/u;
const AUTHORITY = /^\/\/([^/?#]*)(.*)$/s;
const ANNOTATIONS = '/annotations';

const KINDS: Readonly<Record<string, ChannelKind>> = {
  'ahp-root': 'root',
  'ahp-chat': 'chat',
  'ahp-terminal': 'terminal',
  'ahp-changeset': 'changeset',
  'ahp-resource-watch': 'resourceWatch',
  'ahp-canvas': 'canvas'
};

/** Schemes that are no provider's name, so that `<scheme>:/<id>` is no session. */
const OTHER_SCHEMES = new Set(['file', 'http', 'https', 'mcp', 'ws', 'wss', 'data', 'virtual']);

export function isUri(uri: unknown): uri is URI {
  return typeof uri === 'string' && WELL_FORMED.test(uri);
}

/**
 * The one spelling of a URI: lower-case scheme and authority, no empty authority (except for
 * files, which always have it), `ahp-root://` for the root. Throws a `TypeError` for what is no URI.
 */
export function canonicalUri(uri: URI): URI {
  const match = WELL_FORMED.exec(uri);
  if (!match) {
    throw new TypeError(`Not a URI: "${uri}"`);
  }
  const scheme = match[1]!.toLowerCase();
  let rest = match[2]!;
  if (scheme === 'ahp-root') {
    return ROOT;
  }
  const authority = AUTHORITY.exec(rest);
  if (authority) {
    const [, host = '', path = ''] = authority;
    const keep = host !== '' || scheme === 'file' || path === '';
    rest = keep ? `//${host.toLowerCase()}${path}` : path;
  } else if (scheme === 'file' && rest.startsWith('/')) {
    rest = `//${rest}`;
  }
  return `${scheme}:${rest}`;
}

/** Id of a session URI in either spelling; undefined for every other URI. */
export function sessionId(uri: URI): string | undefined {
  if (!isUri(uri)) {
    return undefined;
  }
  const match = /^([a-z][a-z0-9+.-]*):\/([^/?#]+)$/.exec(canonicalUri(uri));
  if (!match) {
    return undefined;
  }
  const [, scheme = '', id = ''] = match;
  const provider = !scheme.startsWith('ahp-') && !OTHER_SCHEMES.has(scheme);
  return (scheme === 'ahp-session' || provider) && id !== '.' && id !== '..' ? id : undefined;
}

/** Which reducer a channel's actions are for; undefined for what is none of the channels with a state. */
export function channelKind(uri: URI): ChannelKind | undefined {
  if (!isUri(uri)) {
    return undefined;
  }
  const canonical = canonicalUri(uri);
  const kind = KINDS[canonical.slice(0, canonical.indexOf(':'))];
  if (kind) {
    return kind;
  }
  if (canonical.endsWith(ANNOTATIONS)) {
    return sessionId(canonical.slice(0, -ANNOTATIONS.length)) ? 'annotations' : undefined;
  }
  return sessionId(canonical) ? 'session' : undefined;
}

export function newSessionUri(): URI {
  return `ahp-session:/${uuid()}`;
}

export function newChatUri(): URI {
  return `ahp-chat:/${uuid()}`;
}

export function annotationsUri(session: URI): URI {
  return `${session}${ANNOTATIONS}`;
}
