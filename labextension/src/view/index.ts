/** The chat as React components: the same in JupyterLab's panel and main area and in a notebook's widget. */

export { ChatsList, type ChatsListProps } from './ChatsList';
export { ChatView, type ChatViewProps } from './ChatView';
export { type CellPlace, cellOf, metaOfCell } from './cells';
export {
  type ChatRef,
  type CodeActions,
  Context,
  type Incoming,
  useView,
  type ViewContext,
  type ViewHost
} from './host';
export { quiet } from './markdown/safe';
export { startChat } from './start';
export { activityOf, useSessions } from './sessions';
export { type Bundle, english, type Words, wordsOf } from './words';
