import type { Words } from './words';

/** "0.3 s", "8 s", "1 min 12 s", "2 h 5 min". */
export function duration(ms: number, { t }: Words): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 0.95) {
    return t('%1 s', Math.max(0.1, Math.round(seconds * 10) / 10).toFixed(1));
  }
  const whole = Math.round(seconds);
  if (whole < 60) {
    return t('%1 s', whole);
  }
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) {
    return t('%1 min %2 s', minutes, whole % 60);
  }
  return t('%1 h %2 min', Math.floor(minutes / 60), minutes % 60);
}

/** "812", "12.4k", "1.2M". */
export function tokens(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  const [value, unit] = count < 999_950 ? [count / 1000, 'k'] : [count / 1_000_000, 'M'];
  return `${value < 99.95 ? value.toFixed(1) : Math.round(value)}${unit}`;
}

/** "$0.0123", "€2.50": to a hundredth of a cent where it is little. */
export function money(amount: number, currency: string, locale?: string): string {
  return amount.toLocaleString(locale, {
    style: 'currency',
    currency,
    minimumFractionDigits: 2,
    maximumFractionDigits: Math.abs(amount) < 1 ? 4 : 2
  });
}

/** "812 B", "4.1 MB". */
export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 99.5 ? Math.round(value) : Number(value.toPrecision(2))} ${units[unit]}`;
}

export function isSameDay(a: Date, b: Date): boolean {
  return a.toDateString() === b.toDateString();
}

/** When a chat was last changed, as short as it can be said: "now", "4 min", "10:42", "Monday", "12 Nov". */
export function when(date: Date, now: Date, { t }: Words, locale?: string): string {
  const minutes = (now.getTime() - date.getTime()) / 60_000;
  if (Number.isNaN(minutes)) {
    return '';
  }
  if (minutes < 1) {
    return t('now');
  }
  if (minutes < 60) {
    return t('%1 min', Math.floor(minutes));
  }
  if (isSameDay(date, now)) {
    return date.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' });
  }
  if (minutes < 6 * 24 * 60) {
    return date.toLocaleDateString(locale, { weekday: 'long' });
  }
  const year = date.getFullYear() === now.getFullYear() ? undefined : 'numeric';
  return date.toLocaleDateString(locale, { day: 'numeric', month: 'short', year });
}
