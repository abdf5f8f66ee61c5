import type { AgentInfo } from '../ahp';

export interface Unavailable {
  readonly reason: string;
  readonly fix: string;
}

function words(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Why an agent cannot be used here, and what to do about it; undefined when it can. */
export function unavailable(agent: AgentInfo): Unavailable | undefined {
  const said = agent._meta?.['jupyter-ahp.unavailable'];
  if (typeof said !== 'object' || said === null) {
    return undefined;
  }
  const { reason, fix } = said as Record<string, unknown>;
  return { reason: words(reason), fix: words(fix) };
}

/** Something to know of an agent though it can be used, such as that its model is tiny. */
export function noteOf(agent: AgentInfo): string {
  return words(agent._meta?.['jupyter-ahp.note']);
}
