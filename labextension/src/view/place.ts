import { createContext, useContext } from 'react';
import type { URI } from '../ahp';
import type { ChatRef } from './host';

/** Where the parts of a chat are drawn. */
export interface Place {
  /** The session that the chat is in. */
  readonly session: URI | undefined;
  /** Opens another chat; absent where there is no place for it. */
  readonly open: ((chat: ChatRef) => void) | undefined;
}

export const PlaceContext = createContext<Place>({ session: undefined, open: undefined });

export function usePlace(): Place {
  return useContext(PlaceContext);
}
