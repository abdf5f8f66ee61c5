import { act, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Attachment } from '../../ahp';
import { browser, greets, leave, showChat, turn } from './stage';

const revoked: string[] = [];

beforeEach(() => {
  browser();
  revoked.length = 0;
  let made = 0;
  // jsdom has neither
  URL.createObjectURL = () => `blob:${++made}`;
  URL.revokeObjectURL = address => revoked.push(address);
});
afterEach(leave);

const COPY: Attachment = {
  type: 'resource',
  uri: 'file:///home/mia/attachments/1/plot.png',
  label: 'plot.png',
  contentType: 'image/png',
  sizeHint: 4,
  _meta: { 'vscode.agentHost.snapshotAttachment': { isSnapshot: true } }
};

function said(attachment: Attachment) {
  const plain = turn('t1', 'Look', 'I see');
  return { ...plain, message: { ...plain.message, attachments: [attachment] } };
}

const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });

async function paste(data: object): Promise<void> {
  await act(async () => void fireEvent.paste(box(), { clipboardData: data }));
}

function file(name: string, type: string, content = 'data'): File {
  return new File([content], name, { type });
}

describe('a picture that was sent', () => {
  it('is read from the host, shown small, and large on demand; its memory is given back', async () => {
    const { container, settle, unmount } = await showChat(
      { turns: [said(COPY)] },
      {
        set: world =>
          (world.host.answers['resourceRead'] = () => ({
            result: { data: btoa('png!'), encoding: 'base64', contentType: 'image/png' }
          }))
      }
    );
    await settle();
    const chip = screen.getByRole('button', { name: 'plot.png', expanded: false });
    expect(chip.querySelector('img')?.getAttribute('src')).toBe('blob:1');
    fireEvent.click(chip);
    await settle();
    expect(screen.getByRole('img', { name: 'plot.png' }).getAttribute('src')).toMatch(/^blob:/);
    fireEvent.click(chip);
    await settle();
    expect(container.querySelector('.ahp-Picture')).toBeNull();
    unmount();
    expect(revoked.sort()).toEqual(['blob:1', 'blob:2']);
  });

  it('that cannot be read is named, with what was wrong', async () => {
    const { settle } = await showChat(
      { turns: [said(COPY)] },
      {
        set: world =>
          (world.host.answers['resourceRead'] = () => ({
            error: { code: -32008, message: 'plot.png is not there.' }
          }))
      }
    );
    await settle();
    const chip = screen.getByRole('button', { name: 'plot.png' });
    expect(chip.title).toBe('plot.png is not there.');
    expect(chip.querySelector('img')).toBeNull();
  });

  it('is not drawn when what comes is something else than a picture', async () => {
    const { settle } = await showChat(
      { turns: [said(COPY)] },
      {
        set: world =>
          (world.host.answers['resourceRead'] = () => ({
            result: { data: '<svg/>', encoding: 'utf-8', contentType: 'image/svg+xml' }
          }))
      }
    );
    await settle();
    expect(screen.getByRole('button', { name: 'plot.png' }).querySelector('img')).toBeNull();
  });
});

describe('a file that is pasted', () => {
  it('stands as a chip, goes along by its name, and is served to the host', async () => {
    const { world, settle, sent } = await showChat();
    await paste({ types: ['Files'], files: [file('image.png', 'image/png', 'bytes')] });
    await settle();
    await waitFor(() => screen.getByRole('button', { name: 'Remove image.png' }));
    fireEvent.keyDown(box(), { key: 'Enter' }); // no word needed beside a picture
    await settle();
    const [{ message }] = sent('chat/turnStarted') as [{ message: { attachments: Attachment[] } }];
    const [attachment] = message.attachments;
    expect(attachment).toMatchObject({
      type: 'resource',
      label: 'image.png',
      contentType: 'image/png',
      displayKind: 'image',
      sizeHint: 5
    });
    expect((attachment as { uri: string }).uri).toContain(world.store.connection.clientId);
  });

  it('is a text where the clipboard has one, too', async () => {
    const { settle } = await showChat();
    await paste({ types: ['text/plain', 'Files'], files: [file('image.png', 'image/png')] });
    await settle();
    expect(screen.queryByRole('button', { name: 'Remove image.png' })).toBeNull();
  });

  it('is not attached over the limit that the host said, in words (A4)', async () => {
    const { settle } = await showChat(
      {},
      { set: world => greets(world, { 'jupyter-ahp.attachmentLimit': 3 }) }
    );
    await paste({ types: ['Files'], files: [file('big.csv', 'text/csv', '12345')] });
    await settle();
    await waitFor(() => screen.getByRole('alert'));
    expect(screen.getByRole('alert').textContent).toContain(
      'Not attached: big.csv has 5 B, over 3 B.'
    );
  });

  it('of a page that is gone is said to be lost, and not sent', async () => {
    const lost: Attachment = { ...COPY, uri: 'x-jupyter-ahp://gone/1/plot.png', _meta: {} };
    const { settle, sent } = await showChat({
      draft: { text: 'Look', origin: { kind: 'user' }, attachments: [lost] }
    });
    await settle();
    const chips = within(screen.getByRole('form', { name: 'Message' })).getByRole('list');
    expect(chips.textContent).toContain('not here any more');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(sent('chat/turnStarted')[0]['message']).toEqual({
      text: 'Look',
      origin: { kind: 'user' }
    });
  });
});
