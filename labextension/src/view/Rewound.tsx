import React, { useState } from 'react';
import { undoable, type URI } from '../ahp';
import type { May } from './grants';
import { useView } from './host';
import { Notice } from './Notice';
import { sentence } from './text';
import { useChat } from './use';

/** What a rewind cut, and the way back as long as there is one. */
export function Rewound(props: {
  chat: URI;
  may: May;
  onProblem: (problem: string) => void;
}): React.ReactElement | null {
  const { chat, may, onProblem } = props;
  const { store, host } = useView();
  const { t, n } = host.words;
  const turns = useChat(chat, undoable);
  const [undoing, setUndoing] = useState(false);
  if (!turns) {
    return null;
  }
  const undo = (): void => {
    setUndoing(true);
    store
      .undoRewind(chat)
      .catch((error: Error) => onProblem(t('Not undone: %1', sentence(error.message))))
      .finally(() => setUndoing(false));
  };
  return (
    <Notice icon="rewind">
      {n('%1 turn rewound.', '%1 turns rewound.', turns)} {t('Files were not changed back.')}{' '}
      {may('chat:truncate') && (
        <button
          type="button"
          className="ahp-Btn is-small"
          aria-disabled={undoing}
          onClick={undoing ? undefined : undo}
        >
          {t('Undo')}
        </button>
      )}
    </Notice>
  );
}
