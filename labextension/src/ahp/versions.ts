/** Protocol versions: what this client offers, and how one is chosen (AHP 1.5). */

import { ErrorCode, RpcError } from './errors';

/** What this client speaks, in the order of preference. */
export const OFFERED_VERSIONS: readonly string[] = ['1.0.0', '0.9.0'];

/** The ranges of a jupyter-ahp host. 0.10 is the label under which VS Code 1.141 speaks 1.0. */
export const SERVED_RANGES: readonly string[] = ['^1.0.0', '0.10.x', '^0.9.0'];

const VERSION = /^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$/;

type Version = readonly [bigint, bigint, bigint];

function parsed(text: string): Version {
  const match = VERSION.exec(text);
  if (!match) {
    throw new RpcError(
      ErrorCode.InvalidParams,
      `Not a protocol version: "${text}" (MAJOR.MINOR.PATCH)`
    );
  }
  return [BigInt(match[1]!), BigInt(match[2]!), BigInt(match[3]!)];
}

function compare(a: Version, b: Version): number {
  const at = a.findIndex((part, index) => part !== b[index]);
  return at < 0 ? 0 : a[at]! < b[at]! ? -1 : 1;
}

function isServed([major, minor]: Version): boolean {
  return major === 1n || (major === 0n && (minor === 9n || minor === 10n));
}

/**
 * The highest offered version inside a served range; the order of the offer does not matter.
 * Throws `RpcError`: -32602 when any entry is malformed, -32005 with `supportedVersions` when
 * none is served.
 */
export function negotiate(offered: readonly string[]): string {
  const served = offered
    .map(text => ({ text, version: parsed(text) }))
    .filter(v => isServed(v.version));
  if (served.length === 0) {
    throw new RpcError(
      ErrorCode.UnsupportedProtocolVersion,
      `None of the protocol versions offered (${offered.join(', ') || 'none'}) is served here`,
      { supportedVersions: SERVED_RANGES }
    );
  }
  return served.reduce((best, next) => (compare(next.version, best.version) > 0 ? next : best))
    .text;
}
