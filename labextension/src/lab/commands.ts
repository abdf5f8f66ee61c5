/** The commands of the panel. Their names are contract: launchers, shortcuts and tests call them. */
export const CommandIDs = {
  /** Shows the list of chats. */
  openChats: 'jupyter-ahp:open-chats',
  /** Opens a new chat: `{agent?, area?: 'main' | 'side'}`. */
  newChat: 'jupyter-ahp:new-chat',
  /** Opens a chat that exists: `{uri, session?, area?: 'main' | 'side'}`. */
  openChat: 'jupyter-ahp:open-chat',
  /** Goes to the next question that waits for the reader, in whichever chat. */
  nextNeedsYou: 'jupyter-ahp:next-needs-you',
  /** Attaches the selected cells of the notebook in front to the chat in front. */
  attachCells: 'jupyter-ahp:attach-cells',
  /** Attaches what the selected cells put out. */
  attachOutput: 'jupyter-ahp:attach-output',
  /** Attaches the active cell with its error, and asks for a fix. */
  fixError: 'jupyter-ahp:fix-error',
  /** Sends the active cell, whose source begins with `!`, as a command of the chat. */
  runCellInChat: 'jupyter-ahp:run-cell-in-chat'
} as const;

export type Area = 'main' | 'side';
