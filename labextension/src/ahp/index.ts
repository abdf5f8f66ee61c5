/** AHP for a browser: a connection that lasts, a store of channel states, and the protocol's types. */

export type * from './actions';
export {
  attachmentLimit,
  costOf,
  grantsOf,
  HOLD,
  roleOf,
  saidAs,
  steeringOf,
  takesSteering,
  undoable,
  type Unreadable,
  waitedAs
} from './beyond';
export { SessionCatalogue, type SessionList } from './catalogue';
export type { ChannelView, PendingAction } from './channel';
export {
  browserWake,
  frameSchedule,
  systemClock,
  type Clock,
  type Schedule,
  type Wake
} from './clock';
export {
  AhpConnection,
  type ConnectionOptions,
  type ConnectionState,
  type RequestHandler
} from './connection';
export {
  ConnectionLost,
  ErrorCode,
  HandshakeRefused,
  isNotFound,
  Refused,
  RpcError,
  Withdrawn
} from './errors';
export { uuid } from './ids';
export { sameJson } from './json';
export type { Liveness } from './link';
export { offeredBy, Offers } from './offers';
export { REDUCERS, type Reducer } from './reducers';
export type { OpenSocket, SocketLike } from './socket';
export type { RefusedAction, SubscribeOptions, Subscription } from './replica';
export { Resources, type ResourceOptions } from './resources';
export { AhpStore, type StoreOptions } from './store';
export * from './types';
export {
  annotationsUri,
  canonicalUri,
  channelKind,
  newChatUri,
  newSessionUri,
  ROOT,
  sessionId
} from './uris';
export { negotiate, OFFERED_VERSIONS, SERVED_RANGES } from './versions';
