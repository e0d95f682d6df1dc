"""The console: pages in the browser, thin, over service functions; nothing of an event is ever shown as markup."""
