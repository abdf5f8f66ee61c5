/**
 * A count in front of the window's title, which JupyterLab writes anew whenever another document is in front. Answers how
 * to change the count; 0 takes it away.
 */
export function countInTitle(page: Document): (count: number) => void {
  let prefix = '';
  const write = (next: string): void => {
    const bare = page.title.startsWith(prefix) ? page.title.slice(prefix.length) : page.title;
    prefix = next;
    if (page.title !== next + bare) {
      page.title = next + bare;
    }
  };
  new MutationObserver(() => write(prefix)).observe(page.head, {
    childList: true,
    characterData: true,
    subtree: true
  });
  return count => write(count > 0 ? `(${count}) ` : '');
}
