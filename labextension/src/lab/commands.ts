/** The commands of the panel. Their names are contract: launchers, shortcuts and tests call them. */
export const CommandIDs = {
  /** Shows the list of chats. */
  openChats: 'jupyter-ahp:open-chats',
  /** Opens a new chat: `{agent?, area?: 'main' | 'side'}`. */
  newChat: 'jupyter-ahp:new-chat',
  /** Opens a chat that exists: `{uri, session?, area?: 'main' | 'side'}`. */
  openChat: 'jupyter-ahp:open-chat'
} as const;

export type Area = 'main' | 'side';
