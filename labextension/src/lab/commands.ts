/** The commands of the panel. Their names are contract: launchers, shortcuts and tests call them. */
export const CommandIDs = {
  /** Shows the list of chats. */
  openChats: 'jupyter-ahp:open-chats',
  /** Opens a new chat: `{agent?, area?: 'main' | 'side'}`. */
  newChat: 'jupyter-ahp:new-chat',
  /** Opens a chat that exists: `{uri, session?, area?: 'main' | 'side'}`. */
  openChat: 'jupyter-ahp:open-chat',
  /** Goes to the next question that waits for the reader, in whichever chat. */
  nextNeedsYou: 'jupyter-ahp:next-needs-you'
} as const;

export type Area = 'main' | 'side';
