import React from 'react';
import { useConnection } from './connection';
import { duration } from './format';
import { useView } from './host';
import { Icon } from './Icon';
import { useNow } from './use';

/** No connection: when the next try is, and a button for now. */
export function OfflineStrip(): React.ReactElement {
  const { store, host } = useView();
  const { words } = host;
  const { t } = words;
  const { status, nextTryAt, reason } = useConnection();
  const now = useNow(status === 'waiting');
  return (
    <div className="ahp-Strip" role="status">
      <Icon name="offline" className="ahp-warn" />
      <p>
        <b>
          {status === 'refused'
            ? (reason ?? t('The server refused the connection.'))
            : t('No connection to the server.')}
        </b>{' '}
        {status !== 'refused' && (
          <span className="ahp-num" aria-hidden={status === 'waiting'}>
            {status === 'waiting' && nextTryAt !== undefined
              ? t('Next try in %1.', duration(Math.max(1000, nextTryAt - now), words))
              : t('Trying now.')}
          </span>
        )}
      </p>
      {status !== 'connecting' && (
        <button
          type="button"
          className="ahp-Btn is-small"
          onClick={() => store.connection.retryNow()}
        >
          {t('Try now')}
        </button>
      )}
    </div>
  );
}
