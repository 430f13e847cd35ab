;;; forecast.el --- What a user of Eglot does to forecast a function  -*- lexical-binding: t -*-

;;; Commentary:

;; emacs --batch -Q -l forecast.el CONFIGURATION FILE; EXPECTED in the environment is what the command line says.

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa") ; Debian's elpa-eglot, for Emacs below 29
(package-initialize)
(require 'cl-lib)
(require 'eglot)

(setq eglot-sync-connect 30
      make-backup-files nil)

(defun session-text ()
  "What the last forecast says in a few words, or nil."
  (plist-get (jsonrpc-request (eglot--current-server-or-lose) :drygrad/forecast (list)) :text))

(defun session-forecast ()
  "Forecast the function at point by its code action."
  (cl-letf ((last-nonmenu-event t) ; the keyboard, not a mouse menu
            ((symbol-function 'completing-read)
             (lambda (_prompt actions &rest _) (car (assoc "Forecast square" actions)))))
    (eglot-code-actions (point) (point) nil t)))

(pcase-let ((`(,configuration ,file) command-line-args-left)
            (begin (float-time))
            (expected (car (split-string (getenv "EXPECTED") "|"))))
  (setq command-line-args-left nil)
  (load configuration nil t)
  (find-file file)
  (run-hooks 'post-command-hook) ; where `eglot-ensure' waits
  (goto-char (point-min))
  (search-forward "relu")
  (session-forecast)
  (while (not (equal (session-text) expected))
    (when (> (- (float-time) begin) 100)
      (error "The forecast; there is %S" (session-text)))
    (accept-process-output nil 0.2))
  (message "%6.1f s  the forecast that the command line makes" (- (float-time) begin)))

;;; forecast.el ends here
