/**
 * The reducers of AHP 1.0, by the kind of channel.
 *
 * All of them are pure: same input, same output, input untouched; the very input comes back when
 * nothing changes; unknown keys and parts survive, unknown actions change nothing.
 */

import type { AhpAction } from '../actions';
import type { ChannelKind, States } from '../types';
import { annotationsReducer } from './annotations';
import { changesetReducer } from './changeset';
import { chatReducer } from './chat';
import { rootReducer } from './root';
import { sessionReducer } from './session';
import { terminalReducer } from './terminal';

export type Reducer<S> = (state: S, action: AhpAction) => S;

export const REDUCERS: { readonly [K in ChannelKind]: Reducer<States[K]> } = {
  root: rootReducer,
  session: sessionReducer,
  chat: chatReducer,
  terminal: terminalReducer,
  changeset: changesetReducer,
  annotations: annotationsReducer,
  // A watch tells of changes; it has no state that moves.
  resourceWatch: state => state,
  canvas: (state, action) => (action.type === 'canvas/stateChanged' ? action.canvas : state)
};

export {
  annotationsReducer,
  changesetReducer,
  chatReducer,
  rootReducer,
  sessionReducer,
  terminalReducer
};
