import type { AhpStore, SessionState } from '../ahp';
import type { ChatRef } from './host';

/** Makes a session of that agent, or of the host's default one, and waits for the chat that it begins with. */
export async function startChat(store: AhpStore, provider?: string): Promise<ChatRef> {
  const session = await store.createSession(provider ? { provider } : {});
  const hold = store.subscribe(session);
  try {
    const chat = await new Promise<string>((resolve, reject) => {
      const look = (): void => {
        const { state, status, error } = store.getChannel<SessionState>(session);
        if (state?.defaultChat) {
          resolve(state.defaultChat);
        } else if (state?.lifecycle === 'failed') {
          reject(new Error(state.creationError?.message ?? 'The session could not be made'));
        } else if (status === 'failed' || status === 'missing') {
          reject(error ?? new Error('The session went away before it was there'));
        } else {
          return;
        }
        unwatch();
      };
      const unwatch = store.watch(session, look);
      look();
    });
    return { chat, session };
  } finally {
    hold.release();
  }
}
