import type { Message } from '../ahp';

/** Who sent a message (`user:<name>` or `root:<host>`), as the host wrote it down; clients cannot. */
export function senderOf(message: Message | undefined): string | undefined {
  const sender = message?._meta?.['jupyter-ahp.sender'];
  return typeof sender === 'string' ? sender : undefined;
}

/** What to call the sender of a message; undefined when that is the reader, or nobody knows. */
export function nameOf(message: Message, me: string | undefined): string | undefined {
  const sender = senderOf(message);
  if (!sender || sender === me) {
    return undefined;
  }
  const name = message._meta?.['jupyter-ahp.name'];
  return typeof name === 'string' && name ? name : sender.slice(sender.indexOf(':') + 1);
}
