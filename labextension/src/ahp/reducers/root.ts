/** The reducer of the root channel (AHP 2.2). */

import type { AhpAction } from '../actions';
import type { RootState } from '../types';
import { withKey, withKeys } from './shared';

export function rootReducer(state: RootState, action: AhpAction): RootState {
  switch (action.type) {
    case 'root/agentsChanged':
      return withKey(state, 'agents', action.agents);
    case 'root/activeSessionsChanged':
      return withKey(state, 'activeSessions', action.activeSessions);
    case 'root/terminalsChanged':
      return withKey(state, 'terminals', action.terminals);
    case 'root/configChanged': {
      if (!state.config) {
        return state;
      }
      const values = action.replace
        ? action.config
        : withKeys<Record<string, unknown>>(state.config.values ?? {}, action.config);
      return withKey(state, 'config', withKey(state.config, 'values', values));
    }
    default:
      return state;
  }
}
